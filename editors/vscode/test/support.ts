/** What tests share: real interpreters, in environments of their own. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { run } from "../src/processes";

/** An interpreter that has the server: that of the development environment, if nothing else is said. */
export const PYTHON = path.resolve(process.env.SHARDLINT_PYTHON ?? "../../.venv/default/bin/python");

/** A folder that is gone when the test is over. */
export function folderFor(test: { after(end: () => void): void }): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), "shardlint-"));
  test.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A file with a text, in folders that are made. */
export function write(file: string, text: string): string {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
}

/** A new virtual environment without pip, in which packages of these versions seem to be installed. */
export async function environment(
  folder: string,
  versions: Record<string, string>,
): Promise<string> {
  const made = await run([PYTHON, "-m", "venv", "--without-pip", folder]);
  if (made.status !== 0) {
    throw new Error(made.stderr);
  }
  const interpreter = path.join(folder, "bin", "python");
  const site = "import sysconfig; print(sysconfig.get_path('purelib'))";
  const packages = (await run([interpreter, "-c", site])).stdout.trim();
  for (const [name, version] of Object.entries(versions)) {
    const metadata = `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n`;
    write(path.join(packages, `${name}-${version}.dist-info`, "METADATA"), metadata);
  }
  return interpreter;
}
