/** Finds, starts and stops the server, one thing after another, and knows its state. */

import * as os from "node:os";
import * as vscode from "vscode";
import { type LanguageClient, State as ClientState } from "vscode-languageclient/node";
import { clientFor, tell } from "./client";
import {
  type Interpreter,
  type Missing,
  type Server,
  findServer,
  interpreterOf,
  which,
} from "./finding";
import * as messages from "./messages";
import { refusal } from "./probe";
import { selectedInterpreter } from "./python";
import { Restarts } from "./restarts";
import { type Settings, forServer, readSettings } from "./settings";
import type { State } from "./status";

export class Controller implements vscode.Disposable {
  private client: LanguageClient | undefined;
  private readonly restarts = new Restarts();
  private queue: Promise<void> = Promise.resolve();
  private server: Server | undefined;
  private missing: Missing | undefined;

  constructor(
    private readonly output: vscode.LogOutputChannel,
    private readonly show: (state: State) => void,
    private readonly askToInstall: (missing: Missing) => void,
    private readonly askToRestart: (message: string) => void,
  ) {}

  /** Stop the server if it runs, look for it anew, and start it. */
  restart(): Promise<void> {
    this.restarts.forget();
    return this.afterwards(() => this.startAnew());
  }

  /** Tell the server of settings that it takes over while it runs. */
  settingsChanged(): Promise<void> {
    return this.afterwards(async () => {
      if (this.client?.isRunning()) {
        await tell(this.client, forServer(this.settings()));
      }
    });
  }

  /** Whether there is a server that answers. */
  get isRunning(): boolean {
    return this.client?.isRunning() ?? false;
  }

  /** The command that checks the whole workspace; undefined where no server was found. */
  get checkCommand(): string[] | undefined {
    if (this.server === undefined) {
      return undefined;
    }
    return [...this.server.command.slice(0, -1), "check", ...this.settings().args];
  }

  /** The interpreter into which the server can be installed. */
  get installInto(): string | undefined {
    return this.missing?.installInto;
  }

  /** The interpreter of the settings, of the Python extension, or of the folder. */
  async interpreter(): Promise<Interpreter | undefined> {
    const settings = this.settings();
    if (settings.interpreter !== "") {
      return { path: settings.interpreter, choice: "setting" };
    }
    const folder = folderOfWork();
    const selected = await selectedInterpreter(folder?.uri);
    if (selected !== undefined) {
      return { path: selected, choice: "selected" };
    }
    const own = folder === undefined ? undefined : interpreterOf(folder.uri.fsPath);
    return own === undefined ? undefined : { path: own, choice: "folder" };
  }

  async stop(): Promise<void> {
    await this.afterwards(() => this.end());
  }

  dispose(): void {
    void this.stop();
  }

  private async startAnew(): Promise<void> {
    await this.end();
    const settings = this.settings();
    if (!settings.enable) {
      this.show({ kind: "disabled" });
      return;
    }
    this.show({ kind: "starting" });
    const found = await findServer({
      executable: settings.path,
      interpreter: await this.interpreter(),
      onPath: which("shardlint", process.env.PATH ?? ""),
    });
    if (found.kind === "missing") {
      this.missing = found;
      this.output.error(found.message);
      const installable = found.installInto !== undefined;
      this.show({ kind: "missing", message: found.message, installable });
      this.askToInstall(found);
      return;
    }
    await this.start(found, settings);
  }

  private async start(server: Server, settings: Settings): Promise<void> {
    const command = [...server.command, ...settings.args];
    const folder = folderOfWork()?.uri.fsPath;
    if (server.passedOver !== undefined) {
      this.output.warn(messages.usedInstead(server.passedOver.message));
    }
    const refused = await refusal(server.command, settings.args, folder);
    if (refused !== undefined) {
      this.failed(refused);
      return;
    }
    this.output.info(messages.started(server.version, command));
    const client: LanguageClient = clientFor({
      command,
      folder,
      settings: forServer(settings),
      output: this.output,
      ended: () => this.ended(client, server),
    });
    client.onDidChangeState(({ newState }) => {
      if (newState === ClientState.Running) {
        this.show({ kind: "running", version: server.version, command });
      }
    });
    this.client = client;
    this.server = server;
    try {
      await client.start();
    } catch (error) {
      this.output.warn(messages.notStarted(error instanceof Error ? error.message : String(error)));
      this.ended(client, server);
    }
  }

  private async end(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    this.server = undefined;
    this.missing = undefined;
    if (client === undefined) {
      return;
    }
    try {
      await client.dispose();
    } catch (error) {
      // It ended by itself, or does not answer: the client has ended its process.
      this.output.warn(error instanceof Error ? error.message : String(error));
    }
  }

  /** A server ended by itself, while it ran or before it did: it is started again, a few times. */
  private ended(client: LanguageClient, server: Server): void {
    if (this.client !== client) {
      return; // told before, or another one is there by now
    }
    this.client = undefined;
    const again = this.restarts.again(Date.now());
    const count = this.restarts.count;
    if (!again) {
      this.failed(messages.crashedTooOften(count, Restarts.minutes));
      return;
    }
    this.output.warn(messages.crashedAgain(count));
    this.show({ kind: "starting" });
    void this.afterwards(async () => {
      if (this.server === server) {
        await this.start(server, this.settings());
      }
    });
  }

  private failed(message: string): void {
    this.output.error(message);
    this.show({ kind: "failed", message });
    this.askToRestart(message);
  }

  private settings(): Settings {
    const section = vscode.workspace.getConfiguration("shardlint", folderOfWork());
    const { settings, problems } = readSettings((name) => section.get(name), {
      workspaceFolder: folderOfWork()?.uri.fsPath,
      userHome: os.homedir(),
      env: process.env,
    });
    problems.forEach((problem) => this.output.error(problem));
    return settings;
  }

  /** One thing after another: settings and interpreters may change while a server starts. */
  private afterwards(work: () => Promise<void>): Promise<void> {
    const done = this.queue.then(work);
    this.queue = done.catch((error: unknown) => this.output.error(String(error)));
    return this.queue;
  }
}

/** The folder that the server is started in: the first of the workspace. */
function folderOfWork(): vscode.WorkspaceFolder | undefined {
  return vscode.workspace.workspaceFolders?.[0];
}
