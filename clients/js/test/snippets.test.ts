/** Every ```ts block of the README and of the guides compiles against the sources as they are. */

import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const guides = readdirSync(`${root}docs/guide`, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".md"))
  .map((name) => `docs/guide/${name}`);
const snippets = new Map(
  // What `holdfast types` writes is tested where that is.
  ["clients/js/README.md", ...guides.filter((name) => !name.endsWith("/types.md"))].flatMap((page) =>
    [...readFileSync(root + page, "utf8").matchAll(/^```ts\n(.*?)^```/gms)].map(([, code], i): [string, string] => [
      `${root}clients/js/test/${page.replaceAll("/", "_")}_${i + 1}.ts`,
      code as string,
    ]),
  ),
);

test("there are snippets to look at", () => {
  expect(snippets.size).toBeGreaterThanOrEqual(4);
});

test("every snippet compiles", { timeout: 60_000 }, () => {
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    lib: ["lib.es2022.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts"],
    types: ["node"],
    skipLibCheck: true,
    paths: { holdfast: [`${root}clients/js/src/index.ts`] },
  };
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile } = host;
  host.fileExists = (name) => snippets.has(name) || fileExists(name);
  host.readFile = (name) => snippets.get(name) ?? readFile(name);

  const found = ts.getPreEmitDiagnostics(
    ts.createProgram([`${root}clients/js/test/ws.d.ts`, ...snippets.keys()], options, host),
  );

  const told = found.map(
    ({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`,
  );
  expect(told).toEqual([]);
});
