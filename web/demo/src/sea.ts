/** Draws the sea: ships with their wakes, coins, and disconnected players. */

import { type Game, type Place, SIZE } from "./game";

const WAKE_MAX = 26;
/** The fraction of the way to its newest position that a ship moves each frame. */
const GLIDE = 0.22;

interface Drawn {
  place: Place;
  heading: number;
  wake: Place[];
  coins: number;
}

interface Spark {
  place: Place;
  age: number;
}

/** Each ship has its colour, by its number. */
export function colorOf(ship: string): string {
  const number = Number(ship.replace(/\D/g, "")) || 0;
  return `hsl(${(number * 137.5 + 20) % 360} 80% 66%)`;
}

export class Sea {
  private readonly context: CanvasRenderingContext2D;
  private readonly drawn = new Map<string, Drawn>();
  private sparks: Spark[] = [];
  private scale = 1;
  private left = 0;
  private top = 0;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly game: Game,
  ) {
    const context = canvas.getContext("2d");
    if (context === null) throw new Error("This browser cannot draw on a canvas.");
    this.context = context;
    new ResizeObserver(() => this.fit()).observe(canvas);
    this.fit();
  }

  /** Maps a point of the screen to the sea. */
  readonly toSea = (x: number, y: number): Place => {
    const box = this.canvas.getBoundingClientRect();
    return [(x - box.left - this.left) / this.scale, (y - box.top - this.top) / this.scale];
  };

  private fit(): void {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const density = devicePixelRatio || 1;
    this.canvas.width = width * density;
    this.canvas.height = height * density;
    const margin = 22;
    this.scale = Math.max(1, Math.min(width, height) - 2 * margin) / SIZE;
    this.left = (width - SIZE * this.scale) / 2;
    this.top = (height - SIZE * this.scale) / 2;
    this.context.setTransform(density, 0, 0, density, 0, 0);
  }

  draw(now: number, isHere: boolean): void {
    const { context, canvas, game } = this;
    context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    this.water(now);
    const room = game.room;
    if (room?.state === undefined) return;
    for (const coin of room.state.coins) this.coin(coin, now);
    const pilots = Object.values(room.players);
    for (const { ship, name, place, coins, is_here } of pilots) {
      const isOwn = ship === game.own?.ship;
      const drawn = this.follow(ship, (isOwn ? game.place : null) ?? place, coins);
      this.wake(drawn, colorOf(ship));
      this.ship(drawn, colorOf(ship), name, isOwn, isOwn ? isHere : is_here, now);
    }
    for (const ship of this.drawn.keys()) if (!pilots.some((each) => each.ship === ship)) this.drawn.delete(ship);
    this.glitter();
    if (!isHere) this.veil();
  }

  private follow(id: string, [x, y]: Place, coins: number): Drawn {
    let drawn = this.drawn.get(id);
    if (drawn === undefined) {
      drawn = { place: [x, y], heading: -Math.PI / 2, wake: [], coins };
      this.drawn.set(id, drawn);
    }
    const [dx, dy] = [x - drawn.place[0], y - drawn.place[1]];
    if (Math.hypot(dx, dy) > 0.15) {
      const turn = Math.atan2(dy, dx) - drawn.heading;
      drawn.heading += Math.atan2(Math.sin(turn), Math.cos(turn)) * 0.2;
    }
    drawn.place = [drawn.place[0] + dx * GLIDE, drawn.place[1] + dy * GLIDE];
    drawn.wake.push(drawn.place);
    if (drawn.wake.length > WAKE_MAX) drawn.wake.shift();
    if (coins > drawn.coins) this.sparks.push({ place: drawn.place, age: 0 });
    drawn.coins = coins;
    return drawn;
  }

  private at([x, y]: Place): Place {
    return [this.left + x * this.scale, this.top + y * this.scale];
  }

  private water(now: number): void {
    const { context, canvas } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    const gradient = context.createLinearGradient(0, 0, 0, height);
    gradient.addColorStop(0, "#0d3247");
    gradient.addColorStop(1, "#081c2a");
    context.fillStyle = gradient;
    context.fillRect(0, 0, width, height);
    context.strokeStyle = "rgb(120 190 215 / 9%)";
    context.lineWidth = 1.5;
    for (let row = 0; row * 34 < height + 34; row++) {
      context.beginPath();
      for (let x = 0; x <= width; x += 12) {
        const y = row * 34 + Math.sin(x / 46 + row * 1.7 + now / 1400) * 5;
        if (x === 0) context.moveTo(x, y);
        else context.lineTo(x, y);
      }
      context.stroke();
    }
    const [x, y] = this.at([0, 0]);
    context.strokeStyle = "rgb(150 210 230 / 22%)";
    context.setLineDash([2, 7]);
    context.strokeRect(x - 10, y - 10, SIZE * this.scale + 20, SIZE * this.scale + 20);
    context.setLineDash([]);
  }

  private coin(place: Place, now: number): void {
    const { context } = this;
    const [x, y] = this.at(place);
    const radius = 7 + Math.sin(now / 260 + x) * 1.2;
    const glow = context.createRadialGradient(x, y, 2, x, y, radius * 3);
    glow.addColorStop(0, "rgb(255 209 102 / 55%)");
    glow.addColorStop(1, "rgb(255 209 102 / 0%)");
    context.fillStyle = glow;
    context.beginPath();
    context.arc(x, y, radius * 3, 0, 7);
    context.fill();
    context.fillStyle = "#ffd166";
    context.beginPath();
    context.arc(x, y, radius, 0, 7);
    context.fill();
    context.strokeStyle = "#b9852a";
    context.lineWidth = 2;
    context.stroke();
  }

  private wake({ wake }: Drawn, color: string): void {
    const { context } = this;
    context.lineCap = "round";
    for (let index = 1; index < wake.length; index++) {
      const [from, to] = [wake[index - 1], wake[index]];
      if (from === undefined || to === undefined) continue;
      context.globalAlpha = (index / wake.length) * 0.3;
      context.strokeStyle = color;
      context.lineWidth = (index / wake.length) * 7;
      context.beginPath();
      context.moveTo(...this.at(from));
      context.lineTo(...this.at(to));
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  private ship(drawn: Drawn, color: string, name: string, isOwn: boolean, isHere: boolean, now: number): void {
    const { context } = this;
    const [x, y] = this.at(drawn.place);
    context.save();
    context.translate(x, y);
    context.globalAlpha = isHere ? 1 : 0.5;
    context.save();
    context.rotate(drawn.heading);
    context.fillStyle = color;
    context.beginPath();
    context.moveTo(15, 0);
    context.quadraticCurveTo(4, -9, -11, -7);
    context.lineTo(-11, 7);
    context.quadraticCurveTo(4, 9, 15, 0);
    context.fill();
    context.fillStyle = "rgb(6 21 31 / 55%)";
    context.fillRect(-6, -3.5, 8, 7);
    context.restore();
    if (isOwn) {
      context.strokeStyle = "#ffffff";
      context.lineWidth = 2;
      context.beginPath();
      context.arc(0, 0, 21, 0, 7);
      context.stroke();
    }
    if (!isHere) {
      context.setLineDash([4, 5]);
      context.lineDashOffset = -now / 60;
      context.strokeStyle = "#ffb454";
      context.lineWidth = 2;
      context.beginPath();
      context.arc(0, 0, 25, 0, 7);
      context.stroke();
      context.setLineDash([]);
    }
    context.globalAlpha = isHere ? 1 : 0.75;
    context.font = `${isOwn ? 700 : 500} 13px system-ui, sans-serif`;
    context.textAlign = "center";
    context.fillStyle = "#e6f1f5";
    const label = `${name}${isOwn ? " (you)" : ""}${isHere ? "" : ": disconnected, seat held"}`;
    const half = context.measureText(label).width / 2 + 6;
    const inside = Math.min(Math.max(x, half), this.canvas.clientWidth - half) - x;
    context.fillText(label, inside, y < 60 ? 42 : -30);
    context.restore();
  }

  private glitter(): void {
    const { context } = this;
    for (const spark of this.sparks) {
      spark.age += 0.03;
      const [x, y] = this.at(spark.place);
      context.globalAlpha = 1 - spark.age;
      context.strokeStyle = "#ffd166";
      context.lineWidth = 2.5;
      for (let ray = 0; ray < 8; ray++) {
        const angle = (ray / 8) * 2 * Math.PI;
        const [near, far] = [14 + spark.age * 26, 20 + spark.age * 34];
        context.beginPath();
        context.moveTo(x + Math.cos(angle) * near, y + Math.sin(angle) * near);
        context.lineTo(x + Math.cos(angle) * far, y + Math.sin(angle) * far);
        context.stroke();
      }
    }
    context.globalAlpha = 1;
    this.sparks = this.sparks.filter((spark) => spark.age < 1);
  }

  private veil(): void {
    this.context.fillStyle = "rgb(6 16 24 / 42%)";
    this.context.fillRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
  }
}
