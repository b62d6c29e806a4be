/** What the benchmarks say to a server on its standard input: to collect its garbage, and tell what is left. */

import { createInterface } from "node:readline";

export const game = JSON.parse(process.argv[2]);

/** Tell the port, collect garbage when asked to, and end with whoever started us. */
export function serve(port) {
  console.log(port);
  const lines = createInterface({ input: process.stdin });
  lines.on("line", () => {
    globalThis.gc?.();
    globalThis.gc?.();
    const { heapUsed, external } = process.memoryUsage();
    console.log(JSON.stringify({ live_kib: (heapUsed + external) / 1024 }));
  });
  lines.on("close", () => process.exit(0));
}
