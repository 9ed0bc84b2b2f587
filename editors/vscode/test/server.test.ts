import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import * as path from "node:path";
import test from "node:test";
import { pathToFileURL } from "node:url";
import {
  type CodeAction,
  CodeActionRequest,
  type Diagnostic,
  DidChangeConfigurationNotification,
  DidChangeTextDocumentNotification,
  DidOpenTextDocumentNotification,
  ExitNotification,
  type Hover,
  HoverRequest,
  InitializeRequest,
  InitializedNotification,
  InlayHintRequest,
  type MarkupContent,
  type ProtocolConnection,
  PublishDiagnosticsNotification,
  ShutdownRequest,
  type TextEdit,
  createProtocolConnection,
} from "vscode-languageserver-protocol/node";
import { findServer } from "../src/finding";
import { PYTHON, folderFor } from "./support";

const WRONG = `\
import jax.numpy as jnp
from shardtypes import f32


def norm(x: f32["B/d L M"], scale: f32["M"]) -> f32["B/d L M"]:
    mean = jnp.mean(x * x, axis=-1)
    return x / mean * scale


def same(x: f32["B M"]) -> f32["B M"]:
    return x  # shardlint: ignore[ST201]
`;
const PLACE = { start: { line: 6, character: 11 }, end: { line: 6, character: 19 } };
const WHOLE = { start: { line: 0, character: 0 }, end: { line: 11, character: 0 } };

/** A connection to a server that was found as the extension finds it, and what it told of documents. */
interface Session {
  connection: ProtocolConnection;
  uri: string;
  told(is: (found: Diagnostic[]) => boolean): Promise<Diagnostic[]>;
}

async function session(folder: string, args: string[], use: (it: Session) => Promise<void>): Promise<void> {
  const server = await findServer({
    executable: "",
    interpreter: { path: PYTHON, choice: "selected" },
    onPath: undefined,
  });
  assert.equal(server.kind, "server");
  const [command, ...first] = server.command;
  const child = spawn(command, [...first, ...args], { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
  const connection = createProtocolConnection(child.stdout, child.stdin);
  const waiting: ((found: Diagnostic[]) => void)[] = [];
  let last: Diagnostic[] | undefined;
  connection.onNotification(PublishDiagnosticsNotification.type, ({ diagnostics }) => {
    last = diagnostics;
    waiting.forEach((check) => check(diagnostics));
  });
  const told = (is: (found: Diagnostic[]) => boolean) =>
    new Promise<Diagnostic[]>((resolve) => {
      const check = (found: Diagnostic[]) => {
        if (is(found)) {
          resolve(found);
        }
      };
      waiting.push(check);
      if (last !== undefined) {
        check(last);
      }
    });
  connection.listen();
  await connection.sendRequest(InitializeRequest.type, {
    processId: process.pid,
    rootUri: pathToFileURL(folder).href,
    capabilities: {},
    initializationOptions: { inlayHints: true },
  });
  await connection.sendNotification(InitializedNotification.type, {});
  const uri = pathToFileURL(path.join(folder, "model.py")).href;
  const textDocument = { uri, languageId: "python", version: 1, text: WRONG };
  await connection.sendNotification(DidOpenTextDocumentNotification.type, { textDocument });
  await use({ connection, uri, told });
  await connection.sendRequest(ShutdownRequest.type);
  const ended = end(child);
  await connection.sendNotification(ExitNotification.type);
  assert.equal(await ended, 0, "the server ends when it is told to");
  connection.dispose();
}

function end(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => child.once("exit", resolve));
}

test("a document with a mistake: finding, hover, hints, fixes, end", { timeout: 120_000 }, async (t) => {
  await session(folderFor(t), [], async ({ connection, uri, told }) => {
    const found = await told((each) => each.length === 2);
    assert.deepEqual(found.map((one) => [one.source, one.code]), [
      ["shardlint", "ST204"],
      ["shardlint", "ST901"],
    ]);
    assert.deepEqual(found[0].range, PLACE);
    assert.match(String(found[0].message), /do not broadcast.*use keepdims=True/);

    const textDocument = { uri };
    const position = { line: 5, character: 5 };
    const hover = await connection.sendRequest(HoverRequest.type, { textDocument, position });
    assert.match(((hover as Hover).contents as MarkupContent).value, /mean: float32\['B\/d L'\]/);

    const hints = await connection.sendRequest(InlayHintRequest.type, { textDocument, range: WHOLE });
    assert.deepEqual(hints?.map((hint) => hint.label), [": float32['B/d L']"]);
    const settings = { shardlint: { inlayHints: false } };
    await connection.sendNotification(DidChangeConfigurationNotification.type, { settings });
    const none = await connection.sendRequest(InlayHintRequest.type, { textDocument, range: WHOLE });
    assert.deepEqual(none, []);

    const actions = (await connection.sendRequest(CodeActionRequest.type, {
      textDocument,
      range: WHOLE,
      context: { diagnostics: found, only: ["source.fixAll.shardlint"] },
    })) as CodeAction[];
    assert.deepEqual(actions.map((one) => one.title), ["shardlint: apply 1 safe fix"]);
    const [ignoring] = ((await connection.sendRequest(CodeActionRequest.type, {
      textDocument,
      range: PLACE,
      context: { diagnostics: [found[0]], only: ["quickfix"] },
    })) as CodeAction[]);
    assert.equal(ignoring.title, "Ignore ST204 here");

    const edits = [actions[0], ignoring].flatMap((one) => one.edit?.changes?.[uri] ?? []);
    const text = applied(WRONG, edits);
    await connection.sendNotification(DidChangeTextDocumentNotification.type, {
      textDocument: { uri, version: 2 },
      contentChanges: [{ text }],
    });
    assert.deepEqual(await told((each) => each.length === 0), []);
  });
});

test("arguments of the settings reach the server", { timeout: 120_000 }, async (t) => {
  await session(folderFor(t), ["--ignore", "ST204"], async ({ told }) => {
    const found = await told((each) => each.length > 0);
    assert.deepEqual(found.map((one) => one.code), ["ST901"]);
  });
});

/** A text after edits, none of which overlap. */
function applied(text: string, edits: TextEdit[]): string {
  const starts = [0];
  for (const line of text.split("\n")) {
    starts.push((starts.at(-1) ?? 0) + line.length + 1);
  }
  const offset = (at: { line: number; character: number }) => starts[at.line] + at.character;
  const backwards = [...edits].sort((one, other) => offset(other.range.start) - offset(one.range.start));
  let result = text;
  for (const edit of backwards) {
    result = result.slice(0, offset(edit.range.start)) + edit.newText + result.slice(offset(edit.range.end));
  }
  return result;
}
