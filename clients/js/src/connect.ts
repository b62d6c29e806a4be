/** The way in: find the session that this page had, or begin one. */

import { FIRST_S, LONGEST_S } from "./backoff.js";
import { CODECS, MSGPACK } from "./codec.js";
import type { SocketClass } from "./connection.js";
import { Refused } from "./errors.js";
import { LIMITS } from "./limits.js";
import { ClientProtocol } from "./protocol.js";
import { read, type SavedState } from "./saved.js";
import { ClientSession, type SessionEvents, type SessionListeners } from "./session.js";
import { pageStorage, SessionFile, SessionSaver, type SessionStorage } from "./storage.js";
import { Tab } from "./tabs.js";
import type { Auth } from "./types.js";

export interface ConnectOptions {
  /**
   * What the player wants to be called; `SessionEnded` with the problem `name_not_allowed` if that is refused. A saved
   * session that goes on keeps its own: see `session.rename`.
   */
  name?: string;
  /**
   * How to sign in; a new guest if you say nothing, a known one with `{ credential }`.
   *
   * A session that this tab has kept goes first: before another player signs in here, `close()` it, or give each account
   * name of its own with `saved`.
   */
  auth?: Auth;
  /**
   * The session to go on with, if it is there, and to save: in Node a file's path, which makes the session survive its
   * process; in a page a name, which tells sessions apart that go to the same server.
   */
  saved?: string;
  /** Where sessions are saved: files in Node, `sessionStorage` in a page, if you say nothing; null for nowhere. */
  storage?: SessionStorage | null;
  /**
   * What a room does after a refresh, when what its messages had made of the page is gone. `resync` (if you say
   * nothing): it sends its current state. `replay`: it goes on after the last message that was handled; for pages that
   * keep the state of their game themselves, and what a session that is saved in a file does.
   */
  afterRefresh?: "resync" | "replay";
  /**
   * What a duplicated tab does while the first one is alive. `new` (if you say nothing): begin a session of its own.
   * `takeover`: go on with the session; it ends in the first tab, with the reason `superseded`.
   */
  tabs?: "new" | "takeover";
  /**
   * Whether what rooms share is never changed in place: every change makes new objects along its path, for frameworks
   * that compare with `===`. For one room: `join(id, { immutable: true })`.
   */
  immutable?: boolean;
  /** "holdfast.v1.msgpack" or "holdfast.v1.json"; a saved session keeps its own. */
  codec?: string;
  /** For how many seconds to try to come back before the session counts as over; 120 if you say nothing. */
  giveUpS?: number;
  /**
   * Each wait before an attempt to come back is random between 0 and a ceiling. The ceiling starts here, in seconds (0.1
   * if you say nothing), and doubles with each attempt.
   */
  retryFirstS?: number;
  /** Where the ceiling stops; 1 if you say nothing. After a 30 s outage this cap grows too, up to 15 times. */
  retryLongestS?: number;
  /** Listeners to the session's events, as with `session.on`: they hear of the first connection, too. */
  on?: SessionListeners;
  /** Where there is none of its own (Node 20): that of the package `ws`. */
  WebSocket?: unknown;
  /** Uniform in [0, 1), for the waits between attempts; replaced in tests. */
  random?: () => number;
}

// Earlier names of options, and what to use instead: without their effect, sessions would be mixed up or lost.
const REMOVED = {
  dialect: "use `codec`",
  resume: "use `saved`, which finds the session again: in Node a file's path, in a page a name",
};

/**
 * Connect to a server, and stay connected: `const session = await connect("wss://game.example")`.
 *
 * Throws `Unreachable` if there is no answer, `SessionEnded` if the server refuses us. With a saved session, a server
 * that does not answer is tried again for `giveUpS`. A connection that is lost later is replaced, and the session
 * resumed, without a word; `session.on("resume", …)` tells.
 */
export async function connect(url: string, options: ConnectOptions = {}): Promise<ClientSession> {
  const random = options.random ?? Math.random;
  const WebSocket = (options.WebSocket ?? globalThis.WebSocket) as SocketClass | undefined;
  if (!WebSocket)
    throw new Refused(
      "invalid",
      "there is no WebSocket here: pass that of the package ws, as in connect(url, { WebSocket })",
    );
  const backoff = { firstS: options.retryFirstS ?? FIRST_S, longestS: options.retryLongestS ?? LONGEST_S };
  if (!(backoff.firstS > 0 && backoff.firstS <= backoff.longestS && Number.isFinite(backoff.longestS)))
    throw new Refused("invalid", "retryFirstS must be more than 0, and no longer than retryLongestS");
  for (const [name, instead] of Object.entries(REMOVED))
    if (name in options) throw new Refused("invalid", `\`${name}\` was removed: ${instead}`);
  const codec = CODECS[options.codec ?? MSGPACK.name];
  if (!codec)
    throw new Refused("invalid", `unknown codec "${options.codec}"; use one of ${Object.keys(CODECS).join(", ")}`);

  const tab = new Tab(random);
  const storage = storageFor(options);
  const saver = new SessionSaver(storage, `holdfast ${url} ${options.saved ?? ""}`, tab.newId());
  const isFile = storage instanceof SessionFile;
  const saved = isFile ? readFile(storage, saver) : await foundAgain(saver, tab, options);
  const protocol = new ClientProtocol(codec, options.auth ?? (saved ? null : {}), LIMITS, options.name ?? "");
  if (saved) protocol.load(saved, !isFile && options.afterRefresh !== "replay");

  const dialOptions = { url, WebSocket, random, backoff, giveUpS: options.giveUpS ?? 120 };
  const session = new ClientSession(protocol, dialOptions, saver, options.immutable);
  for (const [event, listener] of Object.entries(options.on ?? {}))
    session.on(event as keyof SessionEvents, listener as () => void);
  if (storage && !isFile) {
    await tab.hold(saver.tab, () => session.handOver());
    session.on("close", () => tab.release());
  }
  return session.open();
}

function storageFor(options: ConnectOptions): SessionStorage | null {
  if (options.storage !== undefined) return options.storage;
  const storage = pageStorage();
  return storage ?? (options.saved ? new SessionFile(options.saved) : null);
}

/** The session that a program before this one had; what is no session is refused, not overwritten. */
function readFile(file: SessionFile, saver: SessionSaver): SavedState | null {
  try {
    return file.getItem() ? read(saver.found()?.state ?? "") : null;
  } catch (error) {
    saver.close();
    throw error;
  }
}

/** The session that this page had before it was refreshed, unless another tab has it. */
async function foundAgain(saver: SessionSaver, tab: Tab, options: ConnectOptions): Promise<SavedState | null> {
  const found = saver.found();
  if (!found) return null;
  const claimed = await tab.claim(found.tab, options.tabs === "takeover");
  if (claimed === false) return null;
  if (claimed === true) saver.tab = found.tab;
  try {
    return read(claimed === true ? found.state : claimed);
  } catch {
    // Of another version, or not ours.
    return null;
  }
}
