"""What users of editors choose: options of the server, what is shown, which code actions are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from lsprotocol import types as lsp

from shardlint.server.hints import hint_text
from shardlint.server.preferences import Preferences
from tests.lint.editor import Editor, drive
from tests.support import run_python

pytestmark = pytest.mark.once

TEXT = """\
import jax.numpy as jnp
from shardtypes import f32


def norm(x: f32["B/d L M"]) -> f32["B/d L M"]:
    mean = jnp.mean(x * x, axis=-1)
    return x / mean


def first(x: f32["B M"]) -> f32["B M"]:  # shardlint: ignore[ST201]
    é = "𝒳"; y = x + 1  # shardlint: ignore[ST203]
    return y  # shardlint: ignore[ST202]"""
WHOLE = lsp.Range(lsp.Position(0, 0), lsp.Position(20, 0))


def _codes(found: lsp.PublishDiagnosticsParams) -> list[object]:
    return [one.code for one in found.diagnostics]


def _document(path: Path) -> lsp.TextDocumentIdentifier:
    return lsp.TextDocumentIdentifier(path.as_uri())


# --- options --------------------------------------------------------------------------------------------------------


def test_options_go_before_the_settings_of_every_folder(tmp_path: Path) -> None:
    """In the run over everything, in what is checked at once, and on hover."""
    path = tmp_path / "model.py"
    settings = "[tool.shardlint]\nmesh = { d = 2 }\n"
    (tmp_path / "pyproject.toml").write_text(settings)

    async def script(editor: Editor) -> None:
        editor.open(path, TEXT)
        found = await editor.until(lambda p: bool(p.diagnostics))
        assert _codes(found) == ["ST901", "ST901", "ST901"]
        editor.change(path, TEXT.replace("x / mean", "x * mean"), 2)
        found = await editor.until(lambda p: p.version == 2)
        assert _codes(found) == ["ST901", "ST901", "ST901"]
        at = lsp.Position(5, 4)
        hover = await editor.text_document_hover_async(
            lsp.HoverParams(_document(path), at)
        )
        assert hover is not None and isinstance(hover.contents, lsp.MarkupContent)
        assert "on each device of d=8" in hover.contents.value

    options = ["--mesh", "d=8", "--ignore", "ST204"]
    drive(tmp_path, script, arguments=options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--select", "NO1"], "'NO1' in --select is not a rule code"),
        (["--mesh", "d=0"], "a mesh is written like d=2,t=4"),
        (["--config", "gone.toml"], "gone.toml"),
        (["--wrong"], "unknown option --wrong"),
    ],
)
def test_an_option_that_cannot_be_used_ends_the_server(
    options: list[str], said: str, tmp_path: Path
) -> None:
    for more in ([], ["--version"]):
        command = ["-m", "shardlint", "server", *options, *more]
        done = run_python(*command, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr.splitlines()[-1]


def test_the_version_is_printed_if_the_server_could_start() -> None:
    done = run_python("-m", "shardlint", "server", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    plain = run_python("-m", "shardlint", "--version")
    assert done.stdout == plain.stdout
    code = (
        "import sys; sys.modules['pygls'] = None; from shardlint.cli import main; "
        "sys.exit(main(['server', '--version']))"
    )
    done = run_python("-c", code)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'shardtypes[server]'" in done.stderr


# --- preferences ----------------------------------------------------------------------------------------------------


def test_hints_are_switched_off_and_on(tmp_path: Path) -> None:
    path = tmp_path / "model.py"

    async def hints(editor: Editor) -> list[int]:
        found = await editor.text_document_inlay_hint_async(
            lsp.InlayHintParams(_document(path), WHOLE)
        )
        return [one.position.line for one in found or ()]

    async def script(editor: Editor) -> None:
        editor.open(path, TEXT)
        await editor.until(lambda p: bool(p.diagnostics))
        assert await hints(editor) == []
        for settings, want in (
            ({"shardlint": {"inlayHints": True}}, [5, 10]),
            ({"other": {}}, [5, 10]),
            ({"shardlint": {"inlayHints": False}}, []),
        ):
            changed = lsp.DidChangeConfigurationParams(settings)
            editor.workspace_did_change_configuration(changed)
            assert await hints(editor) == want
        assert editor.messages.empty()

    drive(tmp_path, script, preferences={"inlayHints": False})


def test_hints_of_shapes_and_of_shardings_are_switched_by_themselves(
    tmp_path: Path,
) -> None:
    path = tmp_path / "model.py"
    text = TEXT.replace("    return x / mean", "    z = x + 1\n    return x / mean")

    async def hints(editor: Editor) -> list[object]:
        found = await editor.text_document_inlay_hint_async(
            lsp.InlayHintParams(_document(path), WHOLE)
        )
        return [one.label for one in found or ()]

    async def script(editor: Editor) -> None:
        editor.open(path, text)
        await editor.until(lambda p: bool(p.diagnostics))
        both = [": float32['B/d L']", ": float32['B/d L M']", ": float32['B M']"]
        shapes = [": float32['B L']", ": float32['B L M']", ": float32['B M']"]
        shardings = [": P('d', None)", ": P('d', None, None)"]
        assert await hints(editor) == both
        for shape, sharding, want in (
            (True, False, shapes),
            (False, True, shardings),
            (False, False, []),
            (True, True, both),
        ):
            chosen = {"shapeHints": shape, "shardingHints": sharding}
            changed = lsp.DidChangeConfigurationParams({"shardlint": chosen})
            editor.workspace_did_change_configuration(changed)
            assert await hints(editor) == want

    drive(tmp_path, script)


@pytest.mark.parametrize(
    ("shown", "shape", "sharding"),
    [
        (
            "f32['B//2/d/t M {U:x}']",
            "f32['B//2 M']",
            "P(('d', 't'), None, unreduced={'x'})",
        ),
        ("f32['B M']", "f32['B M']", None),
    ],
)
def test_parts_of_a_hint(shown: str, shape: str, sharding: str | None) -> None:
    assert hint_text(shown, Preferences(sharding_hints=False)) == shape
    assert hint_text(shown, Preferences(shape_hints=False)) == sharding


def test_preferences_that_are_not_known_are_told(tmp_path: Path) -> None:
    async def script(editor: Editor) -> None:
        said = [await editor.next(editor.messages) for _ in range(2)]
        assert said == [
            "shardlint: unknown setting 'inlayHint' of the editor; did you mean 'inlayHints'?",
            "shardlint: 'inlayHints' must be true or false, got 'off'",
        ]
        changed = lsp.DidChangeConfigurationParams({"shardlint": ["inlayHints"]})
        editor.workspace_did_change_configuration(changed)
        assert "must be an object such as" in await editor.next(editor.messages)

    drive(tmp_path, script, preferences={"inlayHint": False, "inlayHints": "off"})


# --- code actions ---------------------------------------------------------------------------------------------------


def test_all_safe_fixes_of_a_file_at_once(tmp_path: Path) -> None:
    """What the command line does with --fix; only where the editor asks for actions of that kind, or of all kinds."""
    path = tmp_path / "model.py"
    path.write_text(TEXT, encoding="utf-8")
    done = run_python("-m", "shardlint", "--fix", "--no-cache", path)
    fixed = path.read_text(encoding="utf-8")
    assert done.returncode == 1 and "ignore" not in fixed, done.stdout + done.stderr

    async def script(editor: Editor) -> None:
        editor.open(path, TEXT)
        await editor.until(lambda p: bool(p.diagnostics))

        async def actions(*only: str) -> dict[str, lsp.CodeAction]:
            context = lsp.CodeActionContext([], only=list(only) or None)
            asked = lsp.CodeActionParams(_document(path), WHOLE, context)
            found = await editor.text_document_code_action_async(asked) or ()
            assert all(isinstance(one, lsp.CodeAction) for one in found)
            return {one.title: one for one in found}  # type: ignore[union-attr] # see above

        every = await actions()
        assert (await actions("")).keys() == every.keys()
        title = "shardlint: apply 3 safe fixes"
        assert title in every and "Ignore ST204 here" in every, every.keys()
        for kind in ("source", "source.fixAll", "source.fixAll.shardlint"):
            assert list(await actions(kind)) == [title]
        quick = await actions("quickfix")
        assert set(quick) == every.keys() - {title}
        assert await actions("source.organizeImports") == {}
        assert await actions("source.fixAll.other") == {}

        action = every[title]
        assert action.kind == "source.fixAll.shardlint"
        assert action.edit is not None and action.edit.changes is not None
        assert applied(TEXT, action.edit.changes[path.as_uri()]) == fixed

    drive(tmp_path, script)


def applied(text: str, edits: Sequence[object]) -> str:
    """A text after edits, whose columns count UTF-16 code units."""
    edits = [one for one in edits if isinstance(one, lsp.TextEdit)]
    lines = text.split("\n")

    def offset(at: lsp.Position) -> int:
        line = lines[at.line].encode("utf-16-le")
        column = len(line[: 2 * at.character].decode("utf-16-le"))
        return sum(len(one) + 1 for one in lines[: at.line]) + column

    found = text
    for edit in sorted(edits, key=lambda one: offset(one.range.start), reverse=True):
        start, end = offset(edit.range.start), offset(edit.range.end)
        found = found[:start] + edit.new_text + found[end:]
    return found
