// The form for the API key, shown when the server requires one.

import { setKey } from "../api";
import { field } from "../ui/dialog";
import { h } from "../ui/dom";

export function signIn(problem: string, then: () => void): HTMLElement {
  const input = h("input", { type: "password", name: "key", autocomplete: "off", required: true, spellcheck: "false" });
  const form = h(
    "form",
    {
      class: "card sign-in",
      onsubmit: (event: Event) => {
        event.preventDefault();
        setKey(input.value.trim());
        then();
      },
    },
    h("div", { class: "brand" }, h("span", { class: "mark", "aria-hidden": "true" }), "Holdfast"),
    h("h1", null, "Sign in"),
    field("API key", input, "It is kept in this tab until you close it, and sent to this server only."),
    h("p", { class: "problem", role: "alert" }, problem),
    h("button", { type: "submit", class: "primary" }, "Sign in"),
    h(
      "p",
      { class: "faint" },
      "Keys are set when the server is started: ",
      h("code", null, "HOLDFAST_API_KEY"),
      " or ",
      h("code", null, "HttpApi(keys=…)"),
      ".",
    ),
  );
  return h("main", { class: "centre" }, form);
}
