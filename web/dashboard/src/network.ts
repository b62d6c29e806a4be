// A simulated bad network: it wraps the client's WebSocket and delays its payloads.
//
// WebSocket runs over TCP, which retransmits lost packets while everything behind them waits. So loss can only be
// simulated as that delay, and nothing is ever reordered.

/** The shortest time before TCP retransmits (RFC 6298 says a second, systems use 200 ms). */
const SEND_AGAIN_MS = 200;

/** The conditions, one way, for every payload. Change them at any time. */
export class Network {
  latencyMs = 0;
  jitterMs = 0;
  /** The percentage of payloads that are lost once. */
  lossPercent = 0;
  isDown = false;

  constructor(private readonly random: () => number = Math.random) {}

  /** How long a payload is in transit. */
  delayMs(): number {
    const way = this.latencyMs + this.random() * this.jitterMs;
    const isLost = this.random() * 100 < this.lossPercent;
    return isLost ? way + SEND_AGAIN_MS + 2 * this.latencyMs : way;
  }
}

/** Delays payloads, and keeps their order. */
export class Pipe {
  private readonly waiting: (() => void)[] = [];
  private lastAt = 0;
  private isCut = false;

  constructor(private readonly network: Network) {}

  push(arrive: () => void): void {
    const delay = this.network.delayMs();
    if (delay <= 0 && this.waiting.length === 0) {
      arrive();
      return;
    }
    const now = performance.now();
    this.lastAt = Math.max(this.lastAt, now + delay);
    this.waiting.push(arrive);
    setTimeout(() => this.next(), this.lastAt - now);
  }

  /** Payloads in transit never arrive. */
  cut(): void {
    this.isCut = true;
    this.waiting.length = 0;
  }

  private next(): void {
    // Whichever timer fires, the oldest payload goes first.
    const arrive = this.waiting.shift();
    if (!this.isCut) {
      arrive?.();
    }
  }
}

/** A class of WebSockets that go through this network. */
export function socketsOf(network: Network, Real: typeof WebSocket = WebSocket) {
  return class {
    onopen: ((event: Event) => void) | null = null;
    onmessage: ((event: MessageEvent) => void) | null = null;
    onclose: ((event: { code: number; reason: string }) => void) | null = null;
    onerror: ((event: Event) => void) | null = null;
    private readonly real: WebSocket | null = null;
    private readonly up = new Pipe(network);
    private readonly down = new Pipe(network);

    constructor(url: string, protocols: string[]) {
      if (network.isDown) {
        setTimeout(() => this.onclose?.({ code: 1006, reason: "" }), 0);
        return;
      }
      const real = new Real(url, protocols);
      this.real = real;
      real.onopen = (event) => this.down.push(() => this.onopen?.(event));
      real.onmessage = (event) => this.down.push(() => this.onmessage?.(event));
      real.onclose = ({ code, reason }) => this.down.push(() => this.onclose?.({ code, reason }));
      real.onerror = (event) => this.onerror?.(event);
    }

    get binaryType(): BinaryType {
      return this.real?.binaryType ?? "arraybuffer";
    }

    set binaryType(type: BinaryType) {
      if (this.real !== null) {
        this.real.binaryType = type;
      }
    }

    get bufferedAmount(): number {
      return this.real?.bufferedAmount ?? 0;
    }

    send(payload: string | Uint8Array<ArrayBuffer>): void {
      // The sender may reuse the buffer before it is sent.
      const content = typeof payload === "string" ? payload : payload.slice();
      this.up.push(() => this.real?.readyState === 1 && this.real.send(content));
    }

    close(code?: number, reason?: string): void {
      this.up.cut();
      this.down.cut();
      this.real?.close(code, reason);
    }
  };
}
