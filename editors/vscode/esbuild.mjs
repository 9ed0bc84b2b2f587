// Bundles the extension into one file, and each test into one that Node runs.
import { readdirSync } from "node:fs";
import { build } from "esbuild";

const common = {
  bundle: true,
  platform: "node",
  target: "node20",
  format: "cjs",
  logLevel: "warning",
};

await build({
  ...common,
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  external: ["vscode"],
  minify: true,
});
await build({
  ...common,
  entryPoints: readdirSync("test")
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => `test/${name}`),
  outdir: "build",
  outExtension: { ".js": ".cjs" },
  external: ["vscode"],
  sourcemap: "inline",
});
