// What a page is: it fills an element, and says how to stop.

import type { EventInfo, Overview } from "./api";
import type { History } from "./numbers";

export interface Shared {
  /** What the numbers of the node were in the last minutes. */
  history: History;
  /** Called with every new look at the node, until stopped. */
  onOverview: (then: (overview: Overview) => void) => () => void;
  /** What happened on the node since the dashboard was opened; the newest last, and not too many. */
  events: EventInfo[];
}

/** Show yourself in `root`; the function that is returned stops everything that was begun. */
export type Page = (root: HTMLElement, parameter: string, shared: Shared) => () => void;
