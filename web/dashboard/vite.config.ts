import { defineConfig } from "vite";

// What is built is part of the wheel, and is not committed. One page, one script, one style, by fixed names: the
// server serves what it finds there.
export default defineConfig({
  base: "/",
  build: {
    outDir: "../../src/holdfast/http/site",
    // By fixed names, nothing old is left over; and others put files there too.
    emptyOutDir: false,
    target: "es2022",
    modulePreload: false,
    rollupOptions: {
      output: { entryFileNames: "assets/dashboard.js", assetFileNames: "assets/dashboard[extname]" },
    },
  },
});
