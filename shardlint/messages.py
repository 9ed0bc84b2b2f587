"""Every sentence of the command line that is not a rule's finding, in one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from shardtypes.lang.messages import sizes_text

#: The commands, each with what it does.
COMMANDS = {
    "check": "Check files and folders: what runs where no command is named.",
    "annotate": "Write the annotations that functions lack.",
    "baseline": "Write the findings of now to a file, which hides them from then on.",
    "completion": "Print the script that makes a shell complete commands and options.",
    "convert": "Write annotations in another form that means the same.",
    "cost": "Print how many bytes each device holds and sends of a function.",
    "explain": "Print the documentation of rules.",
    "mcp": "Serve a coding agent: the Model Context Protocol on standard input and output.",
    "rules": "List all rules.",
    "schema": "Print the JSON schema of the findings, the settings or a baseline.",
    "server": "Serve an editor: the language server protocol on standard input and output.",
}


def commands_of_help() -> str:
    """The commands as ``shardlint --help`` lists them, a line each."""
    width = max(map(len, COMMANDS))
    lines = [f"{name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(lines)


def end_of_help() -> str:
    return (
        "`shardlint COMMAND --help` lists the options of a command.\n"
        "Exit status: 0 nothing found, 1 findings, 2 the work could not be done, 130 interrupted."
    )


def unknown_option(option: str, known: Iterable[str], command: str) -> str:
    # the dashes would be alike in any case
    names = {one.lstrip("-"): one for one in sorted(known)}
    close = get_close_matches(option.lstrip("-"), names, n=1)
    if close:
        return f"unknown option {option}: did you mean {names[close[0]]}?"
    return f"unknown option {option}; {_help_lists(command)}"


def unexpected_argument(argument: str, command: str) -> str:
    return (
        f"{command} takes no further argument, got {argument!r}; {_help_lists(command)}"
    )


def unknown_choice(text: str, choices: Sequence[str]) -> str:
    close = get_close_matches(text, choices, n=1)
    if close:
        return f"there is no {text!r}; did you mean {close[0]!r}?"
    return f"there is no {text!r}; the choices are {', '.join(choices)}"


def bad_arguments(said: str, command: str) -> str:
    """What argparse says of a command line, and where its options are listed; a question is enough alone."""
    if said.endswith("?"):
        return said
    return f"{said}; {_help_lists(command)}"


def _help_lists(command: str) -> str:
    return f"`{command} --help` lists the options"


NOT_DONE = "shardlint: not done"
"""The title of a problem, for services that show titles."""


def nearest(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?``, or the choices when nothing is near."""
    choices = sorted(known)
    close = get_close_matches(word, choices, n=1)
    return (
        f"did you mean {close[0]!r}?" if close else f"the keys are {', '.join(choices)}"
    )


def unknown_key(key: str, known: Iterable[str]) -> str:
    return f"unknown key {key!r} in the shardlint configuration; {nearest(key, known)}"


def wrong_type(key: str, want: str, got: object) -> str:
    return f"{key!r} must be {want}, got {got!r}"


def not_toml(error: Exception) -> str:
    return f"is not valid TOML: {error}"


def no_table() -> str:
    return "has no [tool.shardlint] table"


def nothing_to_check(paths: Sequence[str]) -> str:
    return (
        f"no Python files in {', '.join(paths)}: name others, or see whether 'exclude' in the settings or a .gitignore "
        "leaves them out"
    )


def known_share(files: int, dependents: int, known: int, arrays: int) -> str:
    """``2 files checked, 1 of them because it uses the others; the ranks of 9 of 12 array values are known (75%)``."""
    text = f"{files} file{'s' * (files != 1)} checked"
    if dependents:
        use = "it uses" if dependents == 1 else "they use"
        text += f", {dependents} of them because {use} the others"
    if not arrays:
        return text
    share = 100 * known // arrays
    return f"{text}; the ranks of {known} of {arrays} values that are or may be arrays are known ({share}%)"


def how_well_known(share: str) -> str:
    """One of the shares of ``Knowledge``, as ``--statistics`` lists it."""
    if share == "rank only":
        return "shapes of which the rank alone is known"
    return f"shapes that are known {share}"


def why_not_known(reason: str) -> str:
    """Why values are not known at all, as ``--statistics`` lists it."""
    return f"shapes that are not known: {reason}"


def took(seconds: float, path: str) -> str:
    """A file that took most time, as ``--statistics`` lists it."""
    return f"{seconds:.2f} s of processor time: {path}"


def more_reasons(kinds: int) -> str:
    """What a list leaves out."""
    return f"for {kinds} other reasons, which --format json lists"


LINK_TO_NOTHING = "a link to nothing"


def not_checked(skipped: Sequence[tuple[str, str]], most: int | None = 3) -> str:
    """``not checked: old/ (exclude), a.ipynb (a notebook of r) and 3 more, named by --statistics``."""
    shown = [f"{path} ({reason})" for path, reason in skipped[:most]]
    more = len(skipped) - len(shown)
    return f"not checked: {', '.join(shown)}" + (
        f" and {more} more, named by --statistics" if more else ""
    )


def not_fixed_notebooks(paths: Sequence[str]) -> str:
    return f"{', '.join(paths)}: fixes are not applied to notebooks; change the cells in the editor"


def bad_mesh(text: str) -> str:
    return f"a mesh is written like d=2,t=4 (an axis name, '=', a size of at least 1), got {text!r}"


def cannot_be_read(path: str, reason: str) -> str:
    return f"{path} cannot be read: {reason}"


def no_file_and_function(text: str) -> str:
    return (
        f"a function is named as FILE::FUNCTION, such as model.py::loss, got {text!r}"
    )


def no_function(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    if not names:
        return f"no function {name!r}: the file has none"
    close = get_close_matches(name, names, n=1)
    if close:
        return f"no function {name!r}: did you mean {close[0]!r}?"
    return f"no function {name!r}: the functions are {', '.join(names)}"


def no_mesh() -> str:
    return "no mesh: give one, as in --mesh d=8,t=4, or write it into the settings"


def axis_without_size(axis: str) -> str:
    return f"axis {axis!r} has no size: write {axis}=8 for eight devices"


def axis_not_in_mesh(axis: str, mesh: Mapping[str, int]) -> str:
    shown = ",".join(f"{name}={size}" for name, size in mesh.items())
    return f"the mesh {shown} has no axis {axis!r}: add it to --mesh, as in {shown},{axis}=2"


def argument_of_other_name(function: str, name: str, meant: str) -> str:
    return f"{function} has no argument {name!r}: did you mean {meant!r}?"


def too_many_arguments(function: str, most: int, given: int, are_numbers: bool) -> str:
    takes = f"{most} argument{'' if most == 1 else 's'}"
    text = f"{function} takes at most {takes} by position, got {given}"
    if are_numbers:
        return f"{text}: several numbers are one argument, a tuple"
    return text


def argument_not_given(function: str, name: str) -> str:
    return f"{function} needs its argument {name!r}"


def axis_types_as_strings() -> str:
    return "axis_types are members of jax.sharding.AxisType, not strings"


def position_of_no_parameter(
    function: str, option: str, position: int, count: int
) -> str:
    takes = f"{count} argument{'' if count == 1 else 's'}"
    return f"{function}: {option} has {position}, but the function takes {takes} by position, counted from 0"


def traced_size(function: str, name: str) -> str:
    return (
        f"{function}: {name} is an array that is traced, and has to be known when the function is compiled: "
        "compute it with Python's numbers, from x.shape, or name it in static_argnames"
    )


def traced_slice() -> str:
    return (
        "indexing: a bound of the slice is an array that is traced, and has to be known when the function is compiled: "
        "use lax.dynamic_slice with a size that is, or jnp.where"
    )


def other_tree(function: str, difference: str) -> str:
    return f"{function}: the trees have other structures: {difference}; None is a tree without leaves"


def masks_of_ranks(ranks: Sequence[int]) -> str:
    counts = ", ".join(map(str, ranks))
    return f"combine_masks: the masks have {counts} dimensions, but all of them need the same number"


def mesh_shape_is_number(number: int | None) -> str:
    example = "n" if number is None else number
    return f"the shape of a mesh is a sequence, not a number: write ({example},)"


def mesh_axis_of_size(number: int) -> str:
    return f"an axis of a mesh has at least one device, not {number}: sizes of -1 are not filled in"


def no_axis_in_shape(axis: str, axes: Iterable[str]) -> str:
    known = ", ".join(repr(name) for name in axes)
    return f"the mesh has no axis {axis!r} (axes: {known})"


def shape_not_by_name(axes: Sequence[str]) -> str:
    example = f": mesh.shape[{axes[0]!r}]" if axes else ""
    return f"the shape of a mesh is indexed by the name of one axis{example}; mesh.axis_sizes is a tuple"


def may_run_again() -> str:
    return "what jax.checkpoint computes once more for gradients"


def outside_of_manual_code() -> str:
    return "what the compiler, or JAX's types, send outside of shard_map"


def bad_sizes(text: str) -> str:
    return f"sizes are written like B=32,M=4096, got {text!r}"


def bad_bytes(text: str) -> str:
    return f"a number of bytes is written like 4096, 64KiB or 1.5GB, got {text!r}"


def needs_sizes(names: Sequence[str]) -> str:
    example = ",".join(f"{name}=32" for name in names)
    return f"needs numbers for {', '.join(names)}: give them, as in --sizes {example}"


def no_such_size(name: str, known: Sequence[str]) -> str:
    if not known:
        return f"no size is called {name!r}: the function names none"
    return f"no size is called {name!r}: the sizes are {', '.join(known)}"


def not_divided(name: str, array: str, mesh: Mapping[str, int]) -> str:
    return f"{name}, {array}, is not cut into equal parts on {sizes_text(mesh)}: give sizes that the mesh divides"


def not_known_to_hold(name: str) -> str:
    return f"what {name} holds is not known: annotate it with its dtype, shape and mesh axes"


def nothing_changed() -> str:
    return "nothing has changed"


def too_large_and_whole(name: str, array: str, held: int, most: int) -> str:
    return f"{name} {array} is held whole on each device: {held:,} bytes, more than {most:,}"


def no_cost_file(path: str) -> str:
    return f"{path} is no file that `shardlint cost --write` of this version wrote"


def of_other_mesh(before: Mapping[str, int], now: Mapping[str, int]) -> str:
    old, new = (
        ",".join(f"{axis}={size}" for axis, size in mesh.items())
        for mesh in (before, now)
    )
    return f"it was written for the mesh {old}, not {new}: give --mesh {old}, or write it anew"


def written_without_sizes() -> str:
    return "it was written without numbers for sizes: write it anew with --sizes"


def bad_code(code: str, where: str) -> str:
    return f"{code!r} in {where} is not a rule code or the beginning of one; `shardlint rules` lists them"


def gone(path: str) -> str:
    text = f"{path}: no such file or directory"
    if path in COMMANDS:
        return f"{text}; a command stands first: shardlint {path} …"
    close = get_close_matches(path, COMMANDS, n=1, cutoff=0.8)
    if close:
        return f"{text}; did you mean the command {close[0]!r}?"
    return text


def no_notebook(reason: str) -> str:
    return f"the file is not a valid notebook: {reason}"


def other_language(language: str) -> str:
    return f"a notebook of {language}"


def too_many_files(bound: int) -> str:
    return f"more than {bound} files: only those that were asked for, and what they import, were read"


def no_project(folder: str) -> str:
    return (
        f"--with-dependents: which files use those in {folder} is not known, for it is in no project: "
        "run in one that has a shardlint.toml, a pyproject.toml or a repository"
    )


def unreadable(path: str, reason: str) -> str:
    return f"{path}: cannot be read: {reason}; the other files were checked"


def crashed(path: str, error: BaseException) -> str:
    return (
        f"{path}: shardlint itself failed here: {type(error).__name__}: {error}; this file was not checked fully, "
        "please report it (--traceback shows where)"
    )


def worker_died() -> str:
    return "a worker process died before it had finished; run again with --jobs 1 to see where"


def sends(collectives: Iterable[str], amount: str) -> str:
    """``psum, all_gather: 4*B*M bytes from each device``."""
    sent = f"{amount} bytes from each device" if amount else "bytes are not known"
    return f"{', '.join(collectives)}: {sent}"


def found_wrong(codes: Iterable[str]) -> str:
    return f"found wrong: {', '.join(codes)}"


def verdict_of_tests(verdict: str, culprit: str, is_current: bool) -> str:
    """``refuted by the last test run, at model.py:14``."""
    at = f", at {culprit}" if culprit else ""
    when = "the last test run" if is_current else "a test run before the last change"
    said = verdict if verdict in ("proved", "refuted") else f"{verdict},"
    by = "by" if verdict in ("proved", "refuted") else "in"
    return f"{said} {by} {when}{at}"


def not_written(path: str, reason: str) -> str:
    return f"{path}: cannot write the fixed file: {reason}"


def not_encodable(path: str, encoding: str) -> str:
    return f"{path}: its encoding, {encoding}, has no room for what would be written"


def ignored(count: int, files: int) -> str:
    return f"comments were written for {_findings(count)} in {_files(files)}"


def not_ignored(places: Sequence[str], why: str) -> str:
    """``nothing written for a.py:1:5: …``, of all findings that stay for one of the reasons below."""
    shown = ", ".join(places[:3])
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return f"nothing written for {shown}{more}: {why}"


NOT_IGNORED = {
    "ST901": "no comment silences ST901; remove the comment that silences nothing, as --fix does",
    "ST902": "no comment silences ST902; mend the file, or leave it out with `exclude` in the settings",
    "ST903": "no comment silences ST903; write a code that exists (`shardlint rules` lists them), or remove it",
}
NOT_IN_NOTEBOOKS = "notebooks are not changed; write `# shardlint: ignore[CODE]` into the cell in the editor"
NOT_ASKED_FOR = "the file was not asked for; name it, too"
NO_ROOM = (
    "the line has no room for one, as in a string; write the statement in another way, or hide the finding with "
    "`per-file-ignores` or `shardlint baseline`"
)


def reason_of_lines() -> str:
    return "a reason is one line"


def not_together(first: str, second: str) -> str:
    return f"{first} and {second} do not go together"


def watching() -> str:
    return "waiting for changes; Ctrl-C ends it"


def changed(when: str, paths: Sequence[str]) -> str:
    """``12:00:00 changed: a.py, b.py and 3 more``."""
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f"{when} changed: {', '.join(paths[:3])}{more}"


def polling() -> str:
    return (
        "watchfiles is not installed: files are looked at once a second (pip install 'shardtypes[watch]' watches "
        "them)"
    )


def no_output_file(path: str, reason: str) -> str:
    return f"{path}: cannot write the output: {reason}"


def no_output(reason: str) -> str:
    return f"cannot write the output: {reason}"


def unknown_rule(code: str) -> str:
    return f"there is no rule {code!r}; `shardlint rules` lists them"


def decode(reason: str) -> str:
    return f"the file cannot be decoded: {reason}; save it as UTF-8, or declare its encoding on the first line"


def syntax(reason: str) -> str:
    return f"the file is not valid Python: {reason}"


def parser_limit() -> str:
    return (
        "Python accepts this line, but shardlint's parser (libcst) does not; write it in another way, or leave the "
        "file out with `exclude`"
    )


def too_deep() -> str:
    return "the code is nested too deeply to be read"


def unused_suppression(code: str) -> str:
    return f"nothing to suppress: {code} is not reported here; remove it"


def unknown_suppressed_code(code: str, close: str | None) -> str:
    hint = f"did you mean {close}?" if close else "`shardlint rules` lists the codes"
    return f"unknown code {code!r} in a suppression; {hint}"


def malformed_suppression() -> str:
    return "this comment suppresses nothing; write `# shardlint: ignore[ST301] reason`"


def unknown_configured_code(code: str, key: str) -> str:
    return f"unknown code {code!r} in {key!r}; `shardlint rules` lists the codes"


def summary(findings: int, files: int, fixable: int) -> str:
    if not findings:
        return f"No findings in {files} file{'s' * (files != 1)}."
    text = f"{findings} finding{'s' * (findings != 1)} in {files} file{'s' * (files != 1)}."
    return text + (f" {fixable} can be fixed with --fix." if fixable else "")


_UNMODELLED = "without a model: "


def unmodelled(name: str) -> str:
    return f"{_UNMODELLED}{name}"


def is_unmodelled(gap: str) -> bool:
    return gap.startswith(_UNMODELLED)


_CUT_OFF = "cut off after the bound of steps: "
_NESTED = "nested too deeply to be followed: "


def cut_off(path: str, name: str) -> str:
    return f"{_CUT_OFF}{name} in {path}"


def not_followed(path: str, name: str) -> str:
    """A gap: calls of a function that took more than their part of the steps, from a file."""
    return f"not followed to the end: {name} called from {path}"


def loop_given_up(path: str, name: str) -> str:
    return f"not followed to the end: a loop of {name}, for {path}"


def too_deep_to_follow(path: str) -> str:
    """A gap: a file of which only the syntax was checked."""
    return f"{_NESTED}all of {path}"


_MAY_BE_MEANT = "depends on the number of devices, as its callers may mean: "
_NOT_COMPARED = "not run on other numbers of devices: "
_WHICH_AND_WHY = ": --statistics says which and why"


def not_compared(path: str, reason: str) -> str:
    """A gap: a program, or an axis of its mesh, that was not compared with itself on other numbers of devices."""
    return f"{_NOT_COMPARED}{path}: {reason}"


def is_not_compared(text: str) -> bool:
    """Whether a gap is a program, or a function, that was not compared with itself on other numbers of devices."""
    return text.startswith(_NOT_COMPARED)


def may_be_meant(path: str, reason: str) -> str:
    """A gap: a function alone whose result depends on the number of devices in a way that its callers may mean."""
    return f"{_MAY_BE_MEANT}{path}: {reason}"


def is_meant(text: str) -> bool:
    return text.startswith(_MAY_BE_MEANT)


def compared_share(uncompared: int, meant: int) -> str:
    """``2 programs or functions were not run on other numbers of devices; the results of 1 …``."""
    parts = []
    if uncompared == 1:
        parts.append("1 program or function was not run on other numbers of devices")
    elif uncompared:
        parts.append(
            f"{uncompared} programs or functions were not run on other numbers of devices"
        )
    if meant == 1:
        parts.append(
            "1 function's result depends on the number of devices, as its callers may mean"
        )
    elif meant:
        parts.append(
            f"{meant} functions' results depend on the number of devices, as their callers may mean"
        )
    return "; ".join(parts) + _WHICH_AND_WHY


def is_compared_share(text: str) -> bool:
    return text.endswith(_WHICH_AND_WHY)


def nested(path: str) -> str:
    """A gap: what lies below many levels of one expression."""
    return f"{_NESTED}an expression of {path}"


def is_cut_off(text: str) -> bool:
    """Whether a gap is a function that was not checked to its end; the user is told without asking."""
    return text.startswith((_CUT_OFF, _NESTED))


def cut_short(gaps: Sequence[str]) -> str:
    """Lines for the user who did not ask: the first few functions that were cut off, and how many more there are."""
    shown = [f"shardlint: {text}\n" for text in gaps[:3]]
    more = len(gaps) - len(shown)
    return "".join(shown) + (
        f"shardlint: … and {more} more, named by --statistics\n" if more else ""
    )


def fixed(count: int, files: int) -> str:
    return (
        f"fixed {count} finding{'s' * (count != 1)} in {files} file{'s' * (files != 1)}"
    )


def no_preferences(given: object) -> str:
    return f"an editor's settings must be an object such as {{'inlayHints': false}}, got {given!r}"


def unknown_preference(key: str, known: Iterable[str]) -> str:
    return f"unknown setting {key!r} of the editor; {nearest(key, known)}"


def no_server(module: str) -> str:
    return f"the language server needs {module}, which is not installed: pip install 'shardtypes[server]'"


# --- the server for coding agents --------------------------------------------------------------------------------


def no_mcp(module: str) -> str:
    return (
        f"the server for coding agents needs mcp 2 or newer, and {module} is not installed: "
        "pip install 'shardtypes[mcp]'"
    )


def no_completion(module: str) -> str:
    return f"completion in shells needs {module}, which is not installed: pip install 'shardtypes[completion]'"


def unknown_tool(name: str, known: Iterable[str]) -> str:
    choices = ", ".join(known)
    return f"there is no tool {name!r}: the tools are {choices}"


def unknown_argument(tool: str, name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = get_close_matches(name, names, n=1)
    asked = f": did you mean {close[0]!r}?" if close else "."
    return (
        f"{tool} has no argument {name!r}{asked} Its arguments are {', '.join(names)}"
    )


def missing_argument(tool: str, name: str, about: str) -> str:
    return f"{tool} needs {name!r}: {about}"


def wrong_argument(name: str, wanted: str, got: object) -> str:
    return f"{name!r} must be {wanted}, got {got!r}"


def text_and_paths() -> str:
    return "'text' is that of one file: give 'path' beside it, not 'paths'"


def not_started(command: str, reason: str) -> str:
    return f"{command} cannot be started: {reason}"


def out_of_time(seconds: float) -> str:
    return f"no answer after {seconds:g} seconds: give it more `seconds`, or smaller arrays"


def ended_without_answer(status: int, said: str) -> str:
    remedy = ""
    if "No module named" in said:
        remedy = (
            "; the interpreter needs JAX and shardtypes: pip install 'shardtypes[jax]', or name that of the project by "
            "`shardlint mcp --python`"
        )
    return f"the process ended with status {status}{remedy}\n{said}"


def no_python(path: str) -> str:
    return f"{path} is no Python file: types are told of .py, .pyi and .pyw"


def nothing_there(names: Sequence[str]) -> str:
    """Said of a place without a name of which something is known."""
    if not names:
        return "nothing is known of this line: no name on it leads to arrays, or the settings exclude the file"
    return f"no name is here; on this line there are {', '.join(names)}"


def no_function_named(text: str) -> str:
    return f"a file and a function are written model.py::loss, got {text!r}"


# --- baselines ---------------------------------------------------------------------------------------------------

_WRITE_BASELINE = "`shardlint baseline` writes one"


def no_baseline() -> str:
    return f"there is no such baseline; {_WRITE_BASELINE}"


def unreadable_baseline(reason: str) -> str:
    return f"the baseline cannot be read: {reason}"


def broken_baseline(reason: str) -> str:
    return f"this is no baseline: {reason}; {_WRITE_BASELINE}"


def broken_entry(number: int, reason: str) -> str:
    return broken_baseline(f"finding {number} of it {reason}")


def newer_baseline(version: object) -> str:
    return broken_baseline(f"version {version!r} is not known here, expected 1")


def unwritable_baseline(reason: str) -> str:
    return f"cannot write the baseline: {reason}"


def baseline_written(path: str, findings: int, files: int, is_used: bool) -> str:
    """``shardlint-baseline.json: 3 findings in 2 files``, and how it is put to use if it is not."""
    text = f"{path}: {_findings(findings)} in {_files(files)}"
    if is_used:
        return text
    return f"{text}; --baseline {path}, or `baseline` in the settings, hides them"


def hidden(path: str, findings: int) -> str:
    return f"{_findings(findings)} hidden by {path}"


def gone_from_baseline(path: str, findings: int) -> str:
    """Said of findings of a baseline that are no longer there."""
    verb = "does not occur" if findings == 1 else "do not occur"
    return (
        f"{_findings(findings)} of {path} {verb} any more; `shardlint baseline` writes it "
        "without them"
    )


def _findings(count: int) -> str:
    return f"{count} finding{'s' * (count != 1)}"


def _files(count: int) -> str:
    return f"{count} file{'s' * (count != 1)}"


# --- since a revision --------------------------------------------------------------------------------------------


def no_git() -> str:
    return "there is no git to ask for the files of a revision"


def no_repository(said: str) -> str:
    return f"the current folder is in no git repository with files: {said}"


def no_revision(name: str) -> str:
    return f"{name!r} is no commit of this repository; a shallow clone lacks old ones (git fetch gets them)"


def ends_elsewhere(start: str, dots: str, end: str) -> str:
    return (
        f"{start}{dots}{end} ends at {end}, and the files that are checked are those of what is checked out: "
        f"git switch {end} first, or leave the end out (--since {start}{dots})"
    )


def outside_repository(path: str) -> str:
    return f"{path} is outside of the repository of the current folder"


def git_failed(said: str) -> str:
    return f"git failed: {said}"


def in_revision(revision: str, problem: str) -> str:
    return f"in {revision}: {problem}"


def had_before(count: int, revision: str) -> str:
    """``3 findings were there in main (1234567890) already``."""
    verb = "was" if count == 1 else "were"
    return f"{_findings(count)} {verb} there in {revision} already"


def cost_of(function: str) -> str:
    """What a function holds and sends, as a title."""
    return f"cost of {function}"


def cost_changed(function: str, place: str) -> str:
    """``model.py:12: the cost of layer has changed``."""
    return f"{place}: the cost of {function} has changed"


def cost_not_compared(reason: str) -> str:
    return f"costs are not compared: {reason}"


# --- shardlint annotate ---------------------------------------------------------------------------------------------


def in_manual_code() -> str:
    return "it runs on every device, where annotations are of local shapes"


def not_followed_to_its_end() -> str:
    return "it is too long to follow"


def never_returns() -> str:
    return "it never returns"


def result_not_of_its_body() -> str:
    return "what it gives is not what its body returns"


def result_not_known(reason: str) -> str:
    return f"its result is not known: {reason}"


def several_not_annotated(reasons: Mapping[str, int]) -> str:
    ordered = sorted(reasons.items(), key=lambda one: -one[1])
    total = sum(reasons.values())
    most = "; ".join(f"{count}: {reason}" for reason, count in ordered[:3])
    return f"{total} functions are not annotated, most of them because ({most}); name one as FILE::FUNCTION to see why"


def name_in_use(name: str) -> str:
    return f"{name!r} means something else in this file: import it from shardtypes by another name"


def nothing_lacks(name: str, known: Sequence[str]) -> str:
    text = f"no function {name!r} lacks an annotation"
    close = get_close_matches(name, known, n=1)
    if close:
        return f"{text}: did you mean {close[0]!r}?"
    return text


def not_annotated(path: str, function: str, why: str) -> str:
    return f"{path}::{function} is not annotated: {why}"


def annotated(count: int, files: int, is_difference: bool) -> str:
    if not count:
        return "nothing to annotate"
    what = f"{count} function{'s' * (count != 1)} in {files} file{'s' * (files != 1)}"
    return f"would annotate {what}" if is_difference else f"annotated {what}"


def found_by_annotations(count: int) -> str:
    return f"{count} finding{'s' * (count != 1)} that the annotations make: each is a mistake, or an annotation to mend"


def place_of_word(path: str, cell: int, line: int) -> str:
    return f"{path}:cell {cell}:{line}" if cell else f"{path}:{line}"


def name_taken(name: str, new: str, place: str) -> str:
    return (
        f"{name!r} cannot be called {new!r}: that is another dimension at {place}, and both would be one size; "
        "choose a name that is not used there, or rename the other one first"
    )


def name_of_number(name: str, new: str, place: str) -> str:
    return (
        f"{name!r} cannot be called {new!r}: that is a number at {place}, which would become its size; "
        "choose another name"
    )


def name_in_other_string(name: str, place: str) -> str:
    return (
        f"{name!r} is also in the annotation at {place}, which is not one plain string on one line: "
        "write it as one there, then rename"
    )


def name_in_damaged(name: str, place: str) -> str:
    return f"{name!r} is also in the annotation at {place}, in code that does not parse: repair it, then rename"


def name_in_closed_notebook(name: str, place: str) -> str:
    return f"{name!r} is also in a notebook, at {place}: open that in the editor, then rename"


# --- shardlint convert ----------------------------------------------------------------------------------------------


def bound_twice(name: str) -> str:
    return f"{name!r} does not always mean the dtype in this file: import it once, and name nothing else so"


def not_imported_by_name(name: str) -> str:
    return f"{name!r} is imported with a star or inside a function: import it by name at the top of the file"


def not_a_plain_string() -> str:
    return "the annotation is in a string of several parts, or with escapes or a prefix: write it as one plain string"


def needed_name_in_use(name: str, module: str) -> str:
    wanted = f"that of {module}" if module else "the module"
    return f"the annotation needs {name!r}, {wanted}, which means something else in this file: rename the other one"


def more_metadata() -> str:
    return "only Annotated can hold what stands beside the dtype and the shape: take it away, or leave the file out"


def dtype_is_a_value(name: str) -> str:
    return (
        f"{name!r} is used as a value here, and those of shardtypes.annotated are for annotations: "
        f"use `from shardtypes import {name} as {name}_type` here"
    )


def alias_is_a_value(name: str) -> str:
    return f"{name!r} is used as a value here, which Annotated cannot be: write out the annotation here"


def not_converted(path: str, line: int, column: int, why: str) -> str:
    return f"{path}:{line}:{column}: not converted: {why}"


def notebooks_stay(count: int) -> str:
    return f"{count} notebook{'s stay' if count != 1 else ' stays'} as {'they are' if count != 1 else 'it is'}"


def converted(count: int, files: int, is_difference: bool) -> str:
    if not files:
        return "nothing to convert"
    what = f"{count} annotation{'s' * (count != 1)} in {files} file{'s' * (files != 1)}"
    return f"would convert {what}" if is_difference else f"converted {what}"
