/** The settings under `shardlint`, checked, with variables replaced. */

import * as messages from "./messages";

export interface Settings {
  enable: boolean;
  path: string;
  interpreter: string;
  args: string[];
  inlayHints: boolean;
  shapeHints: boolean;
  shardingHints: boolean;
  hoverPictures: boolean;
  workspaceFindings: boolean;
}

/** What the server reads of the settings, under the same names. */
export type ServerSettings = Pick<
  Settings,
  "inlayHints" | "shapeHints" | "shardingHints" | "hoverPictures" | "workspaceFindings"
>;

/** What variables in settings stand for. */
export interface Variables {
  workspaceFolder: string | undefined;
  userHome: string;
  env: NodeJS.ProcessEnv;
}

/** The settings, and what is wrong with them. */
export interface Read {
  settings: Settings;
  problems: string[];
}

/** Settings that need another start of the server when they change. */
export const STARTING = ["enable", "path", "interpreter", "args"] as const;
/** Settings that a running server takes over. */
export const RUNNING = ["inlayHints", "shapeHints", "shardingHints", "hoverPictures", "workspaceFindings"] as const;

/** Read the settings; `get` gives the value of one, undefined where there is none. */
export function readSettings(get: (name: string) => unknown, variables: Variables): Read {
  const problems: string[] = [];

  function valueOf<T>(name: string, want: string, is: (value: unknown) => value is T, otherwise: T): T {
    const value = get(name);
    if (value === undefined || value === null) {
      return otherwise;
    }
    if (!is(value)) {
      problems.push(messages.wrongSetting(`shardlint.${name}`, want, value));
      return otherwise;
    }
    return value;
  }

  function replaced(name: string, text: string): string {
    return text.trim().replace(/\$\{([^}]*)\}/g, (variable, inner: string) => {
      const value = valueOfVariable(inner, variables);
      if (value === undefined) {
        problems.push(messages.unknownVariable(`shardlint.${name}`, variable));
      }
      return value ?? variable;
    });
  }

  const args = valueOf("args", "a list of strings", isStrings, []);
  const settings = {
    enable: valueOf("enable", "true or false", isBoolean, true),
    path: replaced("path", valueOf("path", "a path", isString, "")),
    interpreter: replaced("interpreter", valueOf("interpreter", "a path", isString, "")),
    args: args.map((each) => replaced("args", each)),
    inlayHints: valueOf("inlayHints", "true or false", isBoolean, true),
    shapeHints: valueOf("shapeHints", "true or false", isBoolean, true),
    shardingHints: valueOf("shardingHints", "true or false", isBoolean, true),
    hoverPictures: valueOf("hoverPictures", "true or false", isBoolean, true),
    workspaceFindings: valueOf("workspaceFindings", "true or false", isBoolean, false),
  };
  return { settings, problems };
}

/** What the server is told when it starts, and when it changes. */
export function forServer(settings: Settings): ServerSettings {
  const { inlayHints, shapeHints, shardingHints, hoverPictures, workspaceFindings } = settings;
  return { inlayHints, shapeHints, shardingHints, hoverPictures, workspaceFindings };
}

function valueOfVariable(name: string, variables: Variables): string | undefined {
  if (name === "workspaceFolder") {
    return variables.workspaceFolder;
  }
  if (name === "userHome") {
    return variables.userHome;
  }
  return name.startsWith("env:") ? variables.env[name.slice("env:".length)] : undefined;
}

function isBoolean(value: unknown): value is boolean {
  return typeof value === "boolean";
}

function isString(value: unknown): value is string {
  return typeof value === "string";
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every(isString);
}
