/** The client of one server: what it is told, and what follows when the server ends by itself. */

import * as vscode from "vscode";
import {
  CloseAction,
  DidChangeConfigurationNotification,
  ErrorAction,
  type ErrorHandler,
  LanguageClient,
} from "vscode-languageclient/node";
import type { ServerSettings } from "./settings";

/** What the server analyses: files on disk, and cells of notebooks. Unsaved new files have no path. */
const FILES = { scheme: "file", language: "python" };
const NOTEBOOKS = "jupyter-notebook";

/** The same for the editor. */
export const DOCUMENTS: vscode.DocumentSelector = [FILES, { notebookType: NOTEBOOKS, language: "python" }];

/** What is started. */
export interface Start {
  command: readonly string[];
  folder: string | undefined;
  settings: ServerSettings;
  output: vscode.LogOutputChannel;
  /** The server ended by itself. */
  ended: () => void;
}

/** A client that is not started yet. */
export function clientFor(start: Start): LanguageClient {
  const [command, ...args] = start.command;
  const serverOptions = { command, args, options: { cwd: start.folder } };
  const errorHandler: ErrorHandler = {
    error: () => ({ action: ErrorAction.Continue }),
    closed: () => {
      start.ended();
      return { action: CloseAction.DoNotRestart, handled: true };
    },
  };
  return new LanguageClient("shardlint", "shardlint", serverOptions, {
    documentSelector: [FILES, { notebook: NOTEBOOKS, language: "python" }],
    initializationOptions: start.settings,
    outputChannel: start.output,
    traceOutputChannel: start.output,
    errorHandler,
    initializationFailedHandler: () => false,
  });
}

/** Tell a running server of settings that it takes over. */
export async function tell(client: LanguageClient, settings: ServerSettings): Promise<void> {
  const told = { settings: { shardlint: settings } };
  await client.sendNotification(DidChangeConfigurationNotification.type, told);
}
