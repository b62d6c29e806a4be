// A chart of the last minutes.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { h } from "./dom";

const HEIGHT = 150;

export interface Line {
  name: string;
  /** A custom property of the style sheet. */
  colour: string;
}

export class Chart {
  readonly element: HTMLElement;
  private readonly plot: uPlot;
  private readonly canvas = h("div", { class: "chart-canvas" });
  private readonly probe = h("span", { hidden: true });
  private readonly legend: HTMLElement[];
  private readonly resized: ResizeObserver;
  private readonly recoloured = (): void => this.plot.redraw(false);

  constructor(
    title: string,
    lines: Line[],
    private readonly format: (value: number) => string,
  ) {
    this.legend = lines.map(() => h("b", null, "–"));
    const legend = lines.map((line, index) =>
      h("span", { class: `legend ${line.colour}` }, line.name, " ", this.legend[index]),
    );
    this.element = h(
      "figure",
      { class: "card chart" },
      h("figcaption", null, h("h3", null, title), h("div", { class: "legends" }, ...legend)),
      this.canvas,
      this.probe,
    );
    const colour = (name: string) => () => this.colour(name);
    const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
    this.plot = new uPlot(
      {
        width: 300,
        height: HEIGHT,
        padding: [10, 10, 0, 0],
        legend: { show: false },
        cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
        scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.15 : 1] } },
        axes: [
          { ...axis, size: 22, gap: 3, space: 80, values: "{HH}:{mm}:{ss}" },
          { ...axis, size: 58, space: 34, values: (_, splits) => splits.map((each) => format(each)) },
        ],
        series: [
          {},
          ...lines.map((line) => ({
            label: line.name,
            stroke: colour(line.colour),
            width: 2,
            points: { show: false },
            spanGaps: true,
          })),
        ],
        hooks: { setCursor: [() => this.told()] },
      },
      [[], ...lines.map(() => [])],
      this.canvas,
    );
    this.resized = new ResizeObserver(() => {
      if (this.canvas.clientWidth > 0) {
        this.plot.setSize({ width: this.canvas.clientWidth, height: HEIGHT });
      }
    });
    this.resized.observe(this.canvas);
    addEventListener("recoloured", this.recoloured);
  }

  show(at: number[], ...values: (number | null)[][]): void {
    this.plot.setData([at, ...values]);
    this.told();
  }

  /** A colour of the style sheet, resolved for the canvas in the current theme. */
  private colour(name: string): string {
    this.probe.style.color = `var(--${name})`;
    return getComputedStyle(this.probe).color;
  }

  /** The values under the pointer, or the newest. */
  private told(): void {
    const index = this.plot.cursor.idx ?? this.plot.data[0].length - 1;
    for (const [number, label] of this.legend.entries()) {
      const value = this.plot.data[number + 1]?.[index];
      label.textContent = value === null || value === undefined ? "–" : this.format(value);
    }
  }

  close(): void {
    removeEventListener("recoloured", this.recoloured);
    this.resized.disconnect();
    this.plot.destroy();
  }
}
