import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

/** What a page loads: all of the SDK, its codec included. */
const GZIPPED_BYTES_MAX = 21_760;

const sizeBudget: Plugin = {
  name: "size-budget",
  writeBundle({ dir }, bundle) {
    const files = Object.keys(bundle).filter((name) => name.endsWith(".js"));
    const bytes = files.reduce((sum, name) => sum + gzipSync(readFileSync(`${dir}/${name}`)).length, 0);
    if (bytes > GZIPPED_BYTES_MAX) this.error(`${bytes} bytes gzipped are more than the ${GZIPPED_BYTES_MAX} allowed`);
    this.info(`${bytes} of ${GZIPPED_BYTES_MAX} bytes gzipped`);
  },
};

// One file for browsers that use no bundler.
export default defineConfig({
  plugins: [sizeBudget],
  build: {
    lib: { entry: "src/index.ts", formats: ["es"], fileName: "index" },
    target: "es2022",
    sourcemap: true,
    // Names and spaces too, which Vite leaves alone in libraries.
    minify: true,
    rolldownOptions: { output: { minify: true } },
  },
});
