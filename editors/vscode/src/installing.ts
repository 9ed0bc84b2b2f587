/** The command that installs the server for an interpreter: its own pip, or uv where it has none. */

import { PACKAGE } from "./messages";
import { run } from "./processes";

/** The command; `uv` is the path of uv, if there is one. Upgrades what is too old. */
export async function installCommand(interpreter: string, uv: string | undefined): Promise<string[]> {
  const pip = await run([interpreter, "-m", "pip", "--version"]);
  if (pip.status !== 0 && uv !== undefined) {
    return [uv, "pip", "install", "--python", interpreter, "--upgrade", PACKAGE];
  }
  return [interpreter, "-m", "pip", "install", "--upgrade", PACKAGE];
}
