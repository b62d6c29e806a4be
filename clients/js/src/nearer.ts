/**
 * The session is on another node than the connection, and that node has an address of its own: try to connect there.
 *
 * The connection that relays stays until the other one is open, so an address that cannot be reached costs nothing. Only
 * an address that came over the session's own connection is tried, never without encryption where that connection has
 * it, and each at most once a minute: whoever sends clients round and round is not followed.
 */

import type { ClientConnection } from "./connection.js";

const DIAL_MS = 3_000;
const AGAIN_MS = 60_000;
const ADDRESSES_MAX = 16;

export class Nearer {
  readonly #connect: (url: string, opened: () => void) => ClientConnection;
  readonly #triedAt = new Map<string, number>();
  #opening: ClientConnection | null = null;
  #isOver = false;

  constructor(connect: (url: string, opened: () => void) => ClientConnection) {
    this.#connect = connect;
  }

  /** The server has named the address of the session's node, over a connection to `current`. */
  told(body: unknown, current: string, came: (nearer: ClientConnection) => void): void {
    const address = String((Object(body) as { address?: unknown }).address ?? "");
    const now = performance.now();
    for (const [url, at] of this.#triedAt) if (now - at >= AGAIN_MS) this.#triedAt.delete(url);
    if (this.#isOver || this.#opening || this.#triedAt.has(address) || this.#triedAt.size >= ADDRESSES_MAX) return;
    if (!/^wss:/i.test(address) && (/^wss:/i.test(current) || !/^ws:/i.test(address))) return;
    this.#triedAt.set(address, now);
    let connection: ClientConnection;
    try {
      connection = this.#connect(address, () => {
        clearTimeout(timer);
        this.#opening = null;
        if (this.#isOver) connection.abort();
        else came(connection);
      });
    } catch {
      // A page may not: its policy (CSP) does not name the address, or it is none.
      return;
    }
    this.#opening = connection;
    const timer = setTimeout(() => connection.abort(), DIAL_MS);
    void connection.ended.then(() => {
      clearTimeout(timer);
      if (this.#opening === connection) this.#opening = null;
    });
  }

  /** Try no more. */
  stop(): void {
    this.#isOver = true;
    this.#opening?.abort();
  }
}
