"""Run tests against changed modules, quickly: collect once, then one forked process per change.

pytest collects the tests once and hands over at its run loop. From there on every change gets a child process of its
own (a fork, so nothing is imported or collected again), which puts the changed code in the place of the old and runs
the tests that call the changed function, the quickest first, until one fails.

Which test calls which function is recorded in one traced run and kept in a file; tests that the file does not know
are recorded when they appear.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import gc
import json
import os
import resource
import select
import signal
import sys
import time
import types
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .mutations import Change, mutated

ROOT = Path(__file__).parent.parent
MEMORY = 6 << 30  # bytes that a changed program may take before it counts as caught
GLANCE = 0.05  # processor seconds of a test that only looks at signatures and constants
SILENT = 900.0  # seconds without a word from a child


class Verdict(NamedTuple):
    """What the tests said about one change: `by` is the test that failed, or the limit that was passed."""

    change: Change
    caught: bool
    by: str
    tests: int
    seconds: float


class Record(NamedTuple):
    """What is known of one test: its processor seconds and the functions ("path:name") it calls."""

    seconds: float
    calls: frozenset[str]


class Runner:
    """A pytest plugin that takes over the run loop and calls `work(self)` there."""

    def __init__(self, work: Callable[[Runner], None]) -> None:
        self.work = work
        self.items: dict[str, pytest.Item] = {}
        self.failed = False

    def pytest_collection(self) -> None:
        """Before the tests are imported: a failing example need not be made smaller."""
        from hypothesis import Phase, settings

        phases = [Phase.explicit, Phase.generate]
        settings.register_profile("mutants", settings.get_profile("project"), phases=phases)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Work instead of running every test."""
        self.items = {item.nodeid: item for item in session.items}
        self.work(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a failure."""
        self.failed |= report.failed

    def run(self, names: Sequence[str]) -> Iterator[tuple[str, bool]]:
        """Run the tests in this order; yields each name before the test runs, then whether it failed."""
        following = [*names[1:], None]
        for name, after in zip(names, following, strict=True):
            yield name, False
            item = self.items[name]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=self.items[after] if after else None)
            if self.failed:
                yield name, True
                return


def collect(paths: Sequence[str], work: Callable[[Runner], None]) -> None:
    """Collect the tests below `paths` and call `work` with them."""
    code = pytest.main(["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", *paths], plugins=[Runner(work)])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError(f"tests: pytest ended with {code!r}")


def records(runner: Runner, kept: Path) -> dict[str, Record]:
    """The records in the file `kept`, after a traced run of the tests that it does not hold."""
    known = {name: Record(s, frozenset(c)) for name, (s, c) in _load(kept).items()}
    missing = [name for name in runner.items if name not in known]
    if missing:
        print(f"recording which functions {len(missing)} tests call", flush=True)
        for line in _child(functools.partial(_trace, runner, missing), None):
            name, seconds, calls = json.loads(line)
            known[name] = Record(seconds, frozenset(calls))
        kept.write_text(json.dumps({name: [r.seconds, sorted(r.calls)] for name, r in known.items()}))
    return known


def _load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def _trace(runner: Runner, names: Sequence[str], say: Callable[[str], None]) -> None:
    core = str(ROOT / "attn_closed_form")
    calls: set[str] = set()

    def on_call(frame: types.FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code.co_filename.startswith(core):
            calls.add(f"{code.co_filename}:{code.co_qualname}")

    for name, after in zip(names, [*names[1:], None], strict=True):
        calls.clear()
        start = time.process_time()
        sys.settrace(on_call)
        item = runner.items[name]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=runner.items[after] if after else None)
        sys.settrace(None)
        found = sorted(call.replace(f"{ROOT}/", "").replace(".<locals>", "") for call in calls)
        say(json.dumps([name, time.process_time() - start, found]))


def chosen(change: Change, known: dict[str, Record], names: Sequence[str], budget: float, first: str = "") -> list[str]:
    """The tests to run for a change: those that call its function, quick ones first, some cases of each before others.

    Quick tests that call nothing of the package are always among them: they look at signatures and constants.
    Together the tests take at most `budget` processor seconds; the verdict says how many were run. `first` is the test
    that noticed the change in an earlier run: where it is still there, it begins.
    """
    file = change.path.relative_to(ROOT).as_posix()
    own = [name for name in names if _folder(name) == file.split("/")[1]]
    target = f"{file}:{change.function}"
    calling = [n for n in own if any(c.startswith(target) for c in known[n].calls)]
    calling = calling or [n for n in own if any(c.startswith(file) for c in known[n].calls)]
    calling += [n for n in own if not known[n].calls and known[n].seconds < GLANCE]
    cost = {name: known[name].seconds for name in calling}
    seen: dict[str, int] = defaultdict(int)
    order = []
    for name in sorted(calling, key=lambda name: cost[name]):
        seen[name.split("[")[0]] += 1
        order.append((seen[name.split("[")[0]] // 4, cost[name], name))
    picked, spent = [name for name in names if name == first], 0.0
    for _, seconds, name in sorted(order):
        if name != first and spent + seconds <= budget:
            picked.append(name)
            spent += seconds
    return picked


def _folder(name: str) -> str:
    return name.split("/")[1]


def run_all(
    runner: Runner, changes: Sequence[Change], kept: Path, budget: float, workers: int, first: Callable[[Change], str]
) -> Iterator[Verdict]:
    """One verdict per change, as they come; `first` names the test to begin with."""
    known = records(runner, kept)
    waiting = list(reversed(changes))
    running: dict[int, _Running] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            change = waiting.pop()
            names = chosen(change, known, list(runner.items), budget, first(change))
            child = _Running(change, names, *_fork(functools.partial(_judge, runner, change, names, known), MEMORY))
            running[child.pipe] = child
        ready, _, _ = select.select(list(running), [], [], 5.0)
        for pipe in ready:
            more = os.read(pipe, 1 << 16)
            running[pipe] = running[pipe]._replace(text=running[pipe].text + more.decode(), heard=time.monotonic())
            if not more:
                yield _verdict(running.pop(pipe))
        for child in list(running.values()):
            if time.monotonic() - child.heard > SILENT:
                os.kill(child.process, signal.SIGKILL)


class _Running(NamedTuple):
    change: Change
    names: list[str]
    process: int
    pipe: int
    text: str = ""
    heard: float = 0.0


def _verdict(child: _Running) -> Verdict:
    _, status, usage = os.wait4(child.process, 0)
    os.close(child.pipe)
    lines = child.text.splitlines()
    seconds = usage.ru_utime + usage.ru_stime
    last = json.loads(lines[-1]) if lines else "the import"
    if status == 0 and last == "survived":
        return Verdict(child.change, False, "", len(child.names), seconds)
    if isinstance(last, list):
        return Verdict(child.change, True, last[0], len(lines) - 1, seconds)
    return Verdict(child.change, True, f"{last} (ended by signal {status & 127})", len(lines), seconds)


def _judge(
    runner: Runner, change: Change, names: Sequence[str], known: dict[str, Record], say: Callable[[str], None]
) -> None:
    try:
        graft(change)
    except Exception as error:
        say(json.dumps([f"import: {type(error).__name__}"]))
        return
    for name, failed in runner.run(names):
        if failed:
            say(json.dumps([name]))
            return
        signal.setitimer(signal.ITIMER_PROF, 5 + 6 * known[name].seconds)  # a hang ends the process
        say(json.dumps(name))
    say(json.dumps("survived"))


def graft(change: Change) -> None:
    """Put the changed module in the place of the imported one: its functions' code, its defaults, its constants."""
    file = change.path.relative_to(ROOT)
    name = ".".join(file.with_suffix("").parts)
    old = sys.modules.get(name) or __import__(name, fromlist=["x"])
    before = _functions(str(change.path))
    new = types.ModuleType(name)
    new.__dict__.update(__file__=str(change.path), __package__=old.__package__)
    exec(compile(mutated(change), str(change.path), "exec", dont_inherit=True), new.__dict__)
    fresh = {_key(f): f for f in _functions(str(change.path)) if not any(f is g for g in before)}
    for function in before:
        twin = fresh.get(_key(function))
        if twin is None:  # made while running; its code is a constant of the function around it
            continue
        function.__code__ = twin.__code__
        for defaults in ("__defaults__", "__kwdefaults__"):
            if repr(getattr(function, defaults)) != repr(getattr(twin, defaults)):
                setattr(function, defaults, getattr(twin, defaults))
    _rebind(old, new)
    for thing in gc.get_objects():
        if isinstance(thing, functools._lru_cache_wrapper):
            thing.cache_clear()


def _functions(path: str) -> list[types.FunctionType]:
    return [f for f in gc.get_objects() if isinstance(f, types.FunctionType) and f.__code__.co_filename == path]


def _key(function: types.FunctionType) -> tuple[Any, ...]:
    code = function.__code__
    return code.co_qualname, code.co_firstlineno, next(iter(dis.get_instructions(code))).positions


def _rebind(old: types.ModuleType, new: types.ModuleType) -> None:
    """Give every constant that changed its new value, in every module that imported it, and in classes."""
    for name, value in vars(new).items():
        was = vars(old).get(name)
        if name.startswith("__") or callable(value) or isinstance(value, types.ModuleType):
            if isinstance(value, type) and isinstance(was, type) and value.__module__ == new.__name__:
                _rebind_class(was, value)
        elif repr(was) != repr(value):
            for module in list(sys.modules.values()):
                if getattr(module, "__dict__", {}).get(name) is was:
                    setattr(module, name, value)


def _rebind_class(old: type, new: type) -> None:
    for name, value in vars(new).items():
        if isinstance(value, bool | int | float | tuple) and repr(vars(old).get(name)) != repr(value):
            setattr(old, name, value)
    for name in ("__init__", "__new__"):  # of a dataclass and of a NamedTuple
        mine, other = getattr(old, name), getattr(new, name)
        if isinstance(mine, types.FunctionType) and repr(mine.__defaults__) != repr(other.__defaults__):
            mine.__defaults__ = other.__defaults__


def _fork(work: Callable[[Callable[[str], None]], None], memory: int | None) -> tuple[int, int, str, float]:
    """A child process that does `work(say)`, and the pipe on which it speaks."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    process = os.fork()
    if process:
        os.close(writer)
        return process, reader, "", time.monotonic()
    code = 1
    with contextlib.suppress(BaseException):
        os.close(reader)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        work(lambda line: _say(writer, line))
        code = 0
    os._exit(code)


def _say(pipe: int, line: str) -> None:
    os.write(pipe, line.encode() + b"\n")


def _child(work: Callable[[Callable[[str], None]], None], memory: int | None) -> Iterator[str]:
    process, pipe, *_ = _fork(work, memory)
    with os.fdopen(pipe) as lines:
        yield from (line.rstrip("\n") for line in lines)
    os.waitpid(process, 0)
