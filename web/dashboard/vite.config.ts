import { defineConfig } from "vite";

// What is built is part of the wheel, and is not committed.
export default defineConfig({
  base: "./",
  build: { outDir: "../../src/holdfast/http/site", emptyOutDir: true, target: "es2022" },
});
