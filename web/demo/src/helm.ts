/** Steering: keys, or a pointer held down on the sea. */

import type { Place } from "./game";

const KEYS: Record<string, Place> = {
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  KeyW: [0, -1],
  KeyS: [0, 1],
  KeyA: [-1, 0],
  KeyD: [1, 0],
};
/** A pointer this near to the ship does not steer. */
const NEAR = 1.2;

export class Helm {
  private readonly held = new Set<string>();
  private target: Place | null = null;

  /** `toSea` maps a point of the screen to the sea. */
  constructor(canvas: HTMLCanvasElement, toSea: (x: number, y: number) => Place) {
    addEventListener("keydown", (event) => {
      if (!(event.code in KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
      this.held.add(event.code);
      event.preventDefault();
    });
    addEventListener("keyup", (event) => this.held.delete(event.code));
    addEventListener("blur", () => {
      this.held.clear();
      this.target = null;
    });
    const point = (event: PointerEvent): void => {
      this.target = toSea(event.clientX, event.clientY);
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      point(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (this.target !== null) point(event);
    });
    for (const end of ["pointerup", "pointercancel"] as const) {
      canvas.addEventListener(end, () => {
        this.target = null;
      });
    }
  }

  /** The direction from the ship's position; null without input. */
  course(from: Place): Place | null {
    let [x, y] = [0, 0];
    for (const key of this.held) {
      const way = KEYS[key];
      if (way !== undefined) [x, y] = [x + way[0], y + way[1]];
    }
    if (this.target !== null) {
      const [dx, dy] = [this.target[0] - from[0], this.target[1] - from[1]];
      if (Math.hypot(dx, dy) > NEAR) [x, y] = [dx, dy];
    }
    return x === 0 && y === 0 ? null : [x, y];
  }
}
