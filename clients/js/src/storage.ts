/** Where a session is kept, so that a refreshed page or a restarted program finds it again. */

import { Refused } from "./errors.js";
import { bytesOf } from "./text.js";

/** As much of `sessionStorage` as is needed. It must be synchronous: what is written is there. */
export interface SessionStorage {
  getItem(key: string): string | null;
  setItem(key: string, text: string): void;
  removeItem(key: string): void;
}

// What is needed of Node's own, which Deno and Bun have too.
interface Files {
  readFileSync(path: string, encoding: "utf8"): string;
  writeFileSync(path: string, text: string, options: { mode: number; flag: "wx" }): void;
  openSync(path: string, flags: "w", mode: number): number;
  writeSync(file: number, bytes: Uint8Array): number;
  closeSync(file: number): void;
  renameSync(from: string, to: string): void;
  rmSync(path: string, options: { force: boolean }): void;
}
interface Process {
  pid: number;
  kill(pid: number, signal: 0): unknown;
  getBuiltinModule?(name: "node:fs"): Files;
}

// A new file when so much was appended to the last: rarely, for that takes milliseconds.
const JOURNAL_BYTES_MAX = 1024 * 1024;

/**
 * A file: only its owner can read it, and only one session at a time uses it. What was written survives a killed
 * process; it is not forced to the disk. Each line is the session as it was then; a line that is not whole, at the end,
 * is what a killed process did not finish.
 */
export class SessionFile implements SessionStorage {
  readonly #files: Files;
  readonly #process: Process;
  // Null if the next line has to begin a new file: at first, or when one could not be written whole.
  #file: number | null = null;
  #bytes = 0;
  #isHeld = false;

  constructor(readonly path: string) {
    const here = (globalThis as unknown as { process?: Process }).process;
    const files = here?.getBuiltinModule?.("node:fs");
    if (!here || !files) throw new Refused("invalid", "there are no files here: give `storage`, or use Node 20.16");
    this.#files = files;
    this.#process = here;
    this.#lock();
  }

  getItem(): string | null {
    const lines = this.#read(this.path)?.split("\n");
    return lines ? (lines.at(-2) ?? lines[0] ?? "").replace("\t", "\n") : null;
  }

  setItem(_: string, text: string): void {
    // What is kept has one line break, and no tabs: the rest is JSON.
    const line = bytesOf(`${text.replace("\n", "\t")}\n`);
    if (this.#file === null || this.#bytes > JOURNAL_BYTES_MAX) this.#begin(line);
    else this.#append(this.#file, line);
  }

  removeItem(): void {
    this.#forgetFile();
    this.#files.rmSync(this.path, { force: true });
  }

  /** This process is done with it. */
  close(): void {
    this.#forgetFile();
    // Once: afterwards the lock may be another's.
    if (this.#isHeld) this.#files.rmSync(`${this.path}.lock`, { force: true });
    this.#isHeld = false;
  }

  #begin(line: Uint8Array): void {
    this.#forgetFile();
    const draft = `${this.path}.draft`;
    this.#files.rmSync(draft, { force: true });
    this.#append(this.#files.openSync(draft, "w", 0o600), line);
    try {
      this.#files.renameSync(draft, this.path);
    } catch (error) {
      // The next line must not be appended to the draft, which nobody reads.
      this.#forgetFile();
      throw error;
    }
    this.#bytes = line.length;
  }

  #append(file: number, line: Uint8Array): void {
    this.#file = file;
    try {
      if (this.#files.writeSync(file, line) !== line.length) throw new Error(`${this.path}: is the disk full?`);
    } catch (error) {
      this.#forgetFile();
      throw error;
    }
    this.#bytes += line.length;
  }

  #forgetFile(): void {
    if (this.#file !== null) this.#files.closeSync(this.#file);
    this.#file = null;
  }

  // Node has no locks that the kernel frees: a file with the id of the process that has it, and when that began. One
  // that lives no more was killed, and so was one with our id (in a container ids are the same every time) that began
  // at another time.
  #lock(): void {
    const lock = `${this.path}.lock`;
    const { pid } = this.#process;
    const ours = `${pid} ${performance.timeOrigin}`;
    const theirs = this.#read(lock) ?? "";
    const owner = Number.parseInt(theirs, 10);
    if (theirs === ours || (owner && owner !== pid && this.#lives(owner))) throw this.#inUse(owner);
    this.#files.rmSync(lock, { force: true });
    try {
      this.#files.writeFileSync(lock, ours, { mode: 0o600, flag: "wx" });
    } catch (error) {
      // Another was faster.
      throw (error as { code?: string }).code === "EEXIST"
        ? this.#inUse(Number.parseInt(this.#read(lock) ?? "", 10))
        : error;
    }
    this.#isHeld = true;
  }

  #inUse(owner: number): Refused {
    const advice = `close the session that has it, or delete ${this.path}.lock`;
    return new Refused("conflict", `the saved session ${this.path} is in use by process ${owner}: ${advice}`);
  }

  #lives(pid: number): boolean {
    try {
      this.#process.kill(pid, 0);
      return true;
    } catch (error) {
      // It lives, and belongs to another process.
      return (error as { code?: string }).code === "EPERM";
    }
  }

  #read(path: string): string | null {
    try {
      return this.#files.readFileSync(path, "utf8");
    } catch (error) {
      if ((error as { code?: string }).code === "ENOENT") return null;
      throw error;
    }
  }
}

/** The page's own storage; null where there is no page, as in Node and Deno, or the browser does not allow it. */
export function pageStorage(): SessionStorage | null {
  try {
    return typeof document === "undefined" ? null : globalThis.sessionStorage;
  } catch {
    return null;
  }
}

/** One session's place in a storage: the tab that it belongs to, and its saved state. */
export class SessionSaver {
  #storage: SessionStorage | null;
  readonly #key: string;
  #last = "";

  constructor(
    storage: SessionStorage | null,
    key: string,
    public tab: string,
  ) {
    this.#storage = storage;
    this.#key = key;
  }

  /** What the page before this one kept, if it did. */
  found(): { tab: string; state: string } | null {
    const [tab, state] = (this.#storage?.getItem(this.#key) ?? "").split("\n", 2);
    return tab && state ? { tab, state } : null;
  }

  /** Store the session, if it is another; false if that failed and must not be passed over. */
  keep(write: () => string): boolean {
    if (!this.#storage) return true;
    const text = `${this.tab}\n${write()}`;
    if (text === this.#last) return true;
    try {
      this.#storage.setItem(this.#key, text);
      this.#last = text;
    } catch (error) {
      if (this.#storage instanceof SessionFile) {
        console.warn("holdfast: the session cannot be saved; nothing is sent until it can:", error);
        return false;
      }
      // What is there is out of date, and its token used up: better none than that one.
      console.warn("holdfast: the session cannot be kept across a refresh:", error);
      this.forget();
      this.#storage = null;
    }
    return true;
  }

  /** This process is done with the session. */
  close(): void {
    if (this.#storage instanceof SessionFile) this.#storage.close();
  }

  forget(): void {
    // Another session of this page may have taken the place.
    if (this.found()?.tab === this.tab) this.#storage?.removeItem(this.#key);
    this.#last = "";
  }
}
