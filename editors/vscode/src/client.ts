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

/** Files whose analysis the server offers: those on disk. Cells of notebooks and unsaved new files have no path. */
export const DOCUMENTS = [{ scheme: "file", language: "python" }];

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
    documentSelector: DOCUMENTS,
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
