/** Listeners by event. One that throws does not affect the others. */

// biome-ignore lint/suspicious/noExplicitAny: the types are those of who emits
type Listener = (...told: any[]) => unknown;

/** Takes a listener away again. */
export type Off = () => void;

export class Emitter {
  readonly #listeners = new Map<string, Set<Listener>>();

  on(name: string, listener: Listener): Off {
    const known = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, known.add(listener));
    return () => {
      known.delete(listener);
    };
  }

  /** Whether anybody listens for this now. */
  has(name: string): boolean {
    return !!this.#listeners.get(name)?.size;
  }

  /** Whether anybody listens for this, or ever has. */
  knows(name: string): boolean {
    return this.#listeners.has(name);
  }

  emit(name: string, ...told: unknown[]): void {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) {
      try {
        listener(...told);
      } catch (error) {
        console.error(`holdfast: a listener for "${name}" failed`, error);
      }
    }
  }
}
