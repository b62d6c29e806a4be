// Dark or light: the system's theme, or the one chosen here.

import { h } from "./dom";

const STORED = "holdfast.theme";
const CHOICES = ["system", "light", "dark"] as const;
type Theme = (typeof CHOICES)[number];

function chosen(): Theme {
  const stored = localStorage.getItem(STORED);
  return CHOICES.find((each) => each === stored) ?? "system";
}

function apply(theme: Theme): void {
  if (theme === "system") {
    delete document.documentElement.dataset.theme;
  } else {
    document.documentElement.dataset.theme = theme;
  }
  dispatchEvent(new Event("recoloured"));
}

apply(chosen());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(chosen()));

export function themeButton(): HTMLElement {
  const select = h(
    "select",
    {
      "aria-label": "Colours",
      onchange: () => {
        localStorage.setItem(STORED, select.value);
        apply(chosen());
      },
    },
    ...CHOICES.map((each) => h("option", { value: each, selected: each === chosen() }, `Colours: ${each}`)),
  );
  return select;
}
