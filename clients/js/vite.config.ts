import { defineConfig } from "vite";

// One file for browsers that use no bundler; the codec is in it.
export default defineConfig({
  build: {
    lib: { entry: "src/index.ts", formats: ["es"], fileName: "index" },
    target: "es2022",
    sourcemap: true,
  },
});
