/**
 * One session, one tab. A duplicated tab has a copy of the storage of the first, and both cannot have its session.
 *
 * The tab that has a session holds a Web Lock and answers questions on a `BroadcastChannel`, both named after a random id
 * that is kept with the session. A lock tells of a living tab for certain, but only where pages are secure (https or
 * localhost); elsewhere an answer does, and no answer within a moment means that no tab has it.
 */

// Where there are locks: a page that is being left has its lock for a moment, and a busy one needs time to answer.
const LOCKED_MS = 3000;
// Where there are none. Tabs in the background answer at once too: messages are not held back there, only timers.
const ANSWER_MS = 500;

/** What one tab says to the others: a question, or the answer to one. */
interface Said {
  from?: string;
  /** Whether the session is asked for, or only whether a tab has it. */
  wants?: boolean;
  /** When the question expires, in ms since 1970. */
  before?: number;
  to?: string;
  state?: string;
}

export class Tab {
  readonly #random: () => number;
  #channel: BroadcastChannel | null = null;
  #unlock: (() => void) | null = null;
  #isGivenAway = false;

  constructor(random: () => number) {
    this.#random = random;
  }

  newId(): string {
    return Array.from({ length: 4 }, () => this.#random().toString(36).slice(2, 8)).join("");
  }

  /**
   * Whether a session is ours to go on with: true, or false if another tab has it. If we want it nevertheless, the other
   * is asked to hand it over, and its state is the result.
   */
  async claim(id: string, wants: boolean): Promise<boolean | string> {
    const locks = locksHere();
    if (locks && (await this.#lock(locks, id, { ifAvailable: true }))) return true;
    const waiting = new AbortController();
    const waitMs = locks ? LOCKED_MS : ANSWER_MS;
    const timer = setTimeout(() => waiting.abort(), waitMs);
    const answer = this.#ask(id, { from: this.newId(), wants, before: Date.now() + waitMs }, waiting.signal);
    // Whichever is first: an answer, or that the lock is free.
    const claimed = await Promise.race([
      answer.then((said) => (said ? (said.state ?? false) : !locks)),
      ...(locks ? [this.#lock(locks, id, { signal: waiting.signal })] : []),
    ]);
    clearTimeout(timer);
    waiting.abort();
    return claimed;
  }

  /** From now on this tab has that session; it is handed to a tab that asks for it. */
  async hold(id: string, handOver: () => string): Promise<void> {
    const locks = locksHere();
    if (locks && !this.#unlock) await this.#lock(locks, id, { ifAvailable: true });
    const channel = open(id);
    this.#channel = channel;
    if (!channel) return;
    channel.onmessage = ({ data: { from, wants, before = 0 } }: { data: Said }) => {
      if (!from || Date.now() > before) return;
      const answer: Said = { to: from };
      if (wants && !this.#isGivenAway) {
        // The lock and the channel stay: what a third tab has copied is out of date, and must not be used.
        this.#isGivenAway = true;
        // It is over here before it goes on there.
        answer.state = handOver();
      }
      channel.postMessage(answer);
    };
  }

  /** The session is over. */
  release(): void {
    if (this.#isGivenAway) return;
    this.#channel?.close();
    this.#unlock?.();
  }

  #lock(locks: LockManager, id: string, options: LockOptions): Promise<boolean> {
    return new Promise((resolve) => {
      locks
        .request(name(id), options, (lock) => {
          resolve(lock !== null);
          if (!lock) return undefined;
          return new Promise<void>((unlock) => {
            this.#unlock = unlock;
          });
        })
        .catch(() => resolve(false));
    });
  }

  /** The answer to a question; null if there is none in time. */
  #ask(id: string, question: Said, waiting: AbortSignal): Promise<Said | null> {
    const channel = open(id);
    return new Promise((resolve) => {
      waiting.addEventListener("abort", () => {
        channel?.close();
        resolve(null);
      });
      if (!channel) return;
      channel.onmessage = ({ data }: { data: Said }) => {
        if (data.to === question.from) resolve(data);
      };
      channel.postMessage(question);
    });
  }
}

const name = (id: string) => `holdfast ${id}`;
const locksHere = () => globalThis.navigator?.locks as LockManager | undefined;

function open(id: string): BroadcastChannel | null {
  if (typeof BroadcastChannel === "undefined") return null;
  const channel = new BroadcastChannel(name(id));
  // Node only: a channel must not keep a program alive.
  (channel as { unref?: () => void }).unref?.();
  return channel;
}
