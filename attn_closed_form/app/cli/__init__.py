"""The commands of `attn-closed-form`.

A command NAME is a `Command` in a module of this folder: a description, examples, a table of
options, and a function from the parsed arguments to an exit status. Only the module of the command
that is called is imported. To add a command, write it as `NAME_command` and name it in COMMANDS.
"""

#: Each command with its module and its line in `attn-closed-form --help`.
COMMANDS = {
    "explain": ("explain", "explain the prediction for a text"),
    "bag": ("bag", "explain a bag (such as a slide) of an attention-pooling network"),
    "roles": ("bag", "propose the roles of the layers of a network, for `bag --rename`"),
    "probe": ("probe", "explain a probe on the activations of a language model"),
    "transformer": ("explain", "explain a transformer in a local folder"),
    "corpus": ("corpus", "explain every row of a table; summarize the result"),
    "serve": ("serve", "serve a local page that explains as you type"),
    "methods": ("about", "list the explanation methods"),
    "model": ("about", "describe a model file: classes, sizes, scores"),
    "train": ("train", "train a model on your texts (needs the extra `train`)"),
    "check": ("about", "check the papers' claims by brute force"),
}
