"""The subcommands of `attn-closed-form`: a module each, with `add_parser(subparsers)`.

`add_parser` sets the default `run`, a function from the parsed arguments to an exit status. A command that hands the
rest of its line to another program's parser also sets `takes_rest=True` and finds it in `args.rest`. To add a command,
write its module and name it in COMMANDS.
"""

COMMANDS = ("explain", "bag", "transformer", "corpus", "serve", "methods", "model", "train", "check")
