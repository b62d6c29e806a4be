// Server-sent events, read with fetch: an EventSource cannot send the key as a header.

import { ask, type EventInfo, Problem } from "./api";

const RETRY_S = [0.5, 1, 2, 4];

export interface Live {
  /** Something happened. */
  event: (event: EventInfo) => void;
  /** The stream runs, or it broke off and is tried again. */
  state?: (isUp: boolean) => void;
  /** It is over for good: what is watched is gone, or the key does not open it. */
  over?: (problem: Problem) => void;
}

/** Follow a stream until stopped; when it breaks off it is begun again. */
export function live(path: string, on: Live): () => void {
  let stopped = false;
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  const run = async (): Promise<void> => {
    for (let failures = 0; !stopped; failures += 1) {
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
      }
      if (!stopped) {
        on.state?.(false);
        await new Promise((done) => setTimeout(done, (RETRY_S[Math.min(failures, RETRY_S.length - 1)] ?? 4) * 1000));
      }
    }
    void reader?.cancel().catch(() => {});
  };
  void run();
  return () => {
    stopped = true;
    void reader?.cancel().catch(() => {});
  };
}

async function read(reader: ReadableStreamDefaultReader<Uint8Array>, event: (event: EventInfo) => void): Promise<void> {
  const lines = new Lines();
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    for (const data of lines.add(decoder.decode(value, { stream: true }))) {
      event(JSON.parse(data) as EventInfo);
    }
  }
}

/** The data of the events in a text that comes in pieces. */
export class Lines {
  private rest = "";

  add(text: string): string[] {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    return lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice("data: ".length));
  }
}
