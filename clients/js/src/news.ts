/**
 * What the server tells without being asked each time: of searches that go on, places in line, placements.
 *
 * Notices are not repeated after a drop. So whoever follows something has a question, which is asked again after every
 * resume and every reset; its answer is all that was missed.
 */

import { type HoldfastError, Refused } from "./errors.js";
import type { Noticed } from "./events.js";
import type { ClientRequest, Exchange } from "./exchange.js";
import { RESET } from "./protocol.js";

/** Something on the server, as far as we know it. */
export abstract class Follower {
  isAsked = false;
  isTold = false;
  /** Why nothing more will be known of it. */
  refusal: HoldfastError | null = null;

  constructor(
    readonly topic: string,
    readonly key: string,
    /** The question: how is it now? */
    readonly request: ClientRequest,
    /** What to say when nobody follows it any more. */
    public farewell: ClientRequest | null = null,
  ) {}

  /** Whether it will stay as it is. */
  get isOver(): boolean {
    return false;
  }

  /** How it is now: the answer to the question. */
  abstract told(content: unknown): void;

  /** What has become of it, as a notice says; most of them say the same as the answer would. */
  noticed(content: unknown): void {
    this.told(content);
  }

  /** The question was refused; that is the end of it unless a follower knows better. */
  refused(refusal: Refused): void {
    this.refusal = refusal;
  }
}

/** Who follows what. */
export class News {
  readonly #exchange: Exchange;
  #followers: Follower[] = [];

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  /** Follow something, and wait for the first answer, or until it `isOff`; a refusal is thrown. */
  async begin(follower: Follower, isOff = () => false): Promise<void> {
    let isAsked = false;
    try {
      await this.#exchange.until(() => {
        if (!isAsked && this.#exchange.protocol.mayRequest) {
          isAsked = true;
          this.add(follower);
          this.ask(follower);
        }
        if (follower.refusal) throw follower.refusal;
        return follower.isTold || isOff();
      });
    } catch (error) {
      this.end(follower);
      throw error;
    }
  }

  /** Follow something of which we know how it is. */
  add(follower: Follower): void {
    if (!follower.isOver) this.#followers.push(follower);
  }

  /** Ask how it is now; the answer comes in its own time. */
  ask(follower: Follower): void {
    follower.isAsked = true;
    this.#exchange.post(follower.request, `${follower.topic} ${follower.key}`, (result, error) => {
      follower.isAsked = false;
      if (!this.#followers.includes(follower)) return;
      if (!error) {
        follower.told(result);
        follower.isTold = true;
      } else if (error instanceof Refused && error.code !== RESET) {
        // After a reset the welcome follows at once, and with it the same question.
        follower.refused(error);
      }
      this.#dropWhatIsOver();
    });
  }

  /** Follow it no more, and let the server know unless somebody else does. */
  end(follower: Follower): void {
    if (!this.#followers.includes(follower)) return;
    this.#followers = this.#followers.filter((each) => each !== follower);
    const { topic, key, farewell } = follower;
    if (farewell && !this.#who(topic, key).length) this.#exchange.post(farewell, `${topic} ${key}`);
  }

  // From the session

  /** The session is back: what would have been noticed in the meantime is lost. */
  welcomed(): void {
    this.#dropWhatIsOver();
    for (const follower of this.#followers) this.ask(follower);
  }

  /** A notice came; one that nobody follows any more is nothing. */
  noticed({ topic, key, body }: Noticed): void {
    for (const follower of this.#who(topic, key)) follower.noticed(body);
    this.#dropWhatIsOver();
  }

  #who(topic: string, key: string): Follower[] {
    return this.#followers.filter((follower) => follower.topic === topic && follower.key === key);
  }

  #dropWhatIsOver(): void {
    this.#followers = this.#followers.filter((follower) => !follower.isOver && !follower.refusal);
  }
}
