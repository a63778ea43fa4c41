"""Every argument and option of every verb meets missing, empty, huge, wrong and hostile values.

The verbs and their parameters are read from the program itself: a new verb fails the first test
until it has a valid command line here, and then every value is put in the place of each parameter.
"""

from __future__ import annotations

import shutil

import click
import pytest

from sghash import Collection
from sghash.adapters.transfer import place_of, push
from sghash.cli.frame import EXIT_CODES, VERBS, program

#: A cheap command line of each verb that succeeds, as {parameter: value}; None where there is no
#: cheap one: then only values are tried that are refused before any work begins.
VALID = {
    "demo": None,
    "fit": {"vectors": "vectors.npy", "model_folder": "new", "spec": "LSH", "n_bits": "8"},
    "encode": {"model_folder": "model", "vectors": "vectors.npy", "codes": "new.npy"},
    "decode": {"model_folder": "model", "codes": "codes.npy", "vectors": "new.npy"},
    "create": {"collection": "new", "vectors": "vectors.npy", "spec": "LSH", "n_bits": "8"},
    "add": {"collection": "kept", "vectors": "vectors.npy"},
    "search": {"collection": "kept", "queries": "vectors.npy"},
    "delete": {"collection": "kept", "ids": "3"},
    "plan": {"rows": "1e6", "dims": "384"},
    "tune": {"collection": "kept"},
    "evaluate": {"vectors": "vectors.npy", "models": "LSH", "bits": "8"},
    "reproduce": None,
    "serve": None,
    "convert": {"source": "vectors.npy", "target": "new.fvecs"},
    "info": {"what": "vectors.npy"},
    "verify": {"path": "kept"},
    "backup": {"collection": "kept", "folder": "new"},
    "explore": {"collection": "kept", "export": "new.html"},
    "completion": {"shell": "zsh"},
    "push": {"collection": "kept", "address": "faiss:new.faiss"},
    "pull": {"address": "faiss:codes.faiss", "collection": "kept"},
}

#: What is put in the place of every parameter in turn.
VALUES = {
    "empty": "",
    "blank": " ",
    "huge number": "9" * 400,
    "large number": str(10**15),
    "long text": "x" * 100_000,
    "negative": "-1",
    "not a number": "nan",
    "wrong file": "year.csv",
    "a folder": "kept",
    "absent": "no/such/thing.npy",
    "escape codes": "a\nb\x1b[2J.npy",
    "not UTF-8": "\udcff.npy",
    "a command": "$(touch hacked); `touch hacked` | touch hacked",
    "code": "__import__('os').system('touch hacked')",
    "deep": "(" * 3000,
    "deep not": "not " * 3000 + "year",
    "a device": "/dev/full",
}


@pytest.fixture
def folder(folder, request):
    """The folder of every test; to pull from, a file of FAISS with the codes of `kept`."""
    if "callspec" in dir(request.node) and request.node.callspec.params.get("verb") == "pull":
        with Collection.open(folder / "kept") as kept:
            push(kept, place_of(f"faiss:{folder / 'codes.faiss'}"), "codes")
    return folder


def parameters_of(verb):
    context = click.Context(program)
    command = program.get_command(context, verb)
    return [p for p in command.params if not (isinstance(p, click.Option) and p.is_flag)]


def line_of(verb, values):
    """The command line: arguments in their order, then options."""
    words, options = [verb], []
    for parameter in parameters_of(verb):
        value = values.get(parameter.name)
        if value is None:
            continue
        if isinstance(parameter, click.Option):
            options.append(f"{parameter.opts[-1]}={value}")
        else:
            words.append(value)
    return [words[0], *options, "--", *words[1:]]


#: Verbs that do much where a value is accepted.
LONG = {"evaluate", "explore", "pull", "push", "tune"}


def marked(verbs):
    return [pytest.param(v, marks=[pytest.mark.slow] * (v in LONG)) for v in verbs]


def test_every_verb_has_a_valid_line():
    assert set(VALID) == set(VERBS)


@pytest.mark.parametrize("verb", marked(v for v, values in VALID.items() if values))
def test_the_valid_lines_are_valid(run, folder, verb):
    out = run(*line_of(verb, VALID[verb]), cwd=folder)
    assert out.returncode == 0 and out.stdout, out.stderr


@pytest.mark.parametrize("verb", marked(VERBS))
def test_no_value_of_any_parameter_is_a_fault(run, folder, verb, tmp_path_factory):
    clean = tmp_path_factory.mktemp("clean") / "copy"
    shutil.copytree(folder, clean)
    found = []
    for parameter in parameters_of(verb):
        for what, value in VALUES.items():
            if VALID[verb] is None and not refused_at_once(parameter, value):
                continue
            out = run(*line_of(verb, {**(VALID[verb] or {}), parameter.name: value}), cwd=folder)
            faults = list(faults_of(out))
            if (folder / "hacked").exists():
                faults.append("something was run")
            if faults:
                found.append((parameter.name, what, faults, out.stderr[-300:]))
            shutil.rmtree(folder)
            shutil.copytree(clean, folder)
    assert not found, "\n".join(map(str, found))


def refused_at_once(parameter, value):
    if parameter.nargs != 1:
        return False  # one value is no list of them for click, and one for the command
    try:
        parameter.type_cast_value(click.Context(program), value)
    except click.BadParameter:
        return True
    return False


def faults_of(out):
    if out.returncode not in (0, 1, 2):
        yield f"exit code {out.returncode}"
    if "Traceback" in out.stderr or len(out.stderr) > 3000:
        yield "too much on stderr"
    if "\x1b[2J" in out.stderr + out.stdout:
        yield "escape codes reach the terminal"
    if out.returncode and out.stdout:
        yield "a failure wrote to stdout"
    if out.returncode and "sghash: " not in out.stderr and "Error: " not in out.stderr:
        yield "no sentence"


@pytest.mark.parametrize("verb", VERBS)
def test_a_missing_argument_is_a_usage_error(run, folder, verb):
    given = [verb, "--"]
    for parameter in parameters_of(verb):
        if isinstance(parameter, click.Argument) and parameter.required:
            assert run(*given, cwd=folder).returncode == 2, given
            given.append((VALID[verb] or {}).get(parameter.name, "x"))
        elif isinstance(parameter, click.Option):
            out = run(verb, parameter.opts[-1], cwd=folder)
            assert out.returncode == 2 and "requires an argument" in out.stderr


def test_too_many_arguments_are_a_usage_error(run, folder):
    for verb in VERBS:
        if verb not in ("delete", "serve"):  # they take any number
            assert run(verb, *["x"] * 9, cwd=folder).returncode == 2, verb


def test_help_documents_the_exit_codes(run):
    text = run("--help").stdout
    for code, meaning in EXIT_CODES.items():
        assert f"{code:3}  {meaning}" in text
