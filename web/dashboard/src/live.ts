// Server-sent events, read with fetch: an EventSource cannot send the key as a header.

import { ask, type EventInfo, Problem } from "./api";

const RETRY_S = [0.5, 1, 2, 4];
/** The server sends something every 15 s: after this long in silence it is gone, even if the socket is open. */
const SILENCE_S = 40;

export interface Live {
  /** An event arrived. */
  event: (event: EventInfo) => void;
  /** The stream is open, or it broke and is retried; with the reason, if the server gave one. */
  state?: (isUp: boolean, why?: Problem) => void;
  /** The stream has ended: its subject is gone, or the key does not allow it. */
  over?: (problem: Problem) => void;
}

/** Read a stream until stopped, and reconnect when it breaks. */
export function live(path: string, on: Live): () => void {
  let stopped = false;
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  const run = async (): Promise<void> => {
    for (let failures = 0; !stopped; failures += 1) {
      let why: Problem | undefined;
      try {
        const answer = await ask("GET", path);
        reader = answer.body?.getReader();
        if (stopped || reader === undefined) {
          break;
        }
        failures = 0;
        on.state?.(true);
        await read(reader, on.event);
      } catch (error) {
        if (error instanceof Problem && error.status !== 0 && error.status !== 429 && error.status < 500) {
          if (!stopped) {
            on.over?.(error);
          }
          return;
        }
        why = error instanceof Problem && error.status !== 0 ? error : undefined;
      } finally {
        cancel();
      }
      if (!stopped) {
        on.state?.(false, why);
        await new Promise((done) => setTimeout(done, (RETRY_S[Math.min(failures, RETRY_S.length - 1)] ?? 4) * 1000));
      }
    }
  };
  const cancel = (): void => {
    void reader?.cancel().catch(() => {});
    reader = undefined;
  };
  void run();
  return () => {
    stopped = true;
    cancel();
  };
}

async function read(reader: ReadableStreamDefaultReader<Uint8Array>, event: (event: EventInfo) => void): Promise<void> {
  const lines = new Lines();
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await unlessSilent(reader.read());
    if (done) {
      return;
    }
    for (const data of lines.add(decoder.decode(value, { stream: true }))) {
      event(JSON.parse(data) as EventInfo);
    }
  }
}

function unlessSilent<T>(word: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_, fail) => {
    timer = setTimeout(() => fail(new Problem(0, "unreachable", "The server does not answer.")), SILENCE_S * 1000);
  });
  return Promise.race([word, silence]).finally(() => clearTimeout(timer));
}

/** The data of the events in a text that arrives in chunks. */
export class Lines {
  private rest = "";

  add(text: string): string[] {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    return lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice("data: ".length));
  }
}
