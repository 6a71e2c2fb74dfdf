// Personal data taken out of a text: what was found is shown in its place.
import { post } from "./api.js";

const $ = (id) => document.getElementById(id);
const make = (tag, className, text) => {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
};

// The text with each finding replaced and marked. Places are in characters, not in UTF-16 units.
function marked(text, findings) {
  const characters = [...text], box = make("div", "redacted");
  let at = 0;
  for (const f of findings) {
    const mark = make("mark", "", f.replacement || "·");
    mark.title = `${f.label.replaceAll("_", " ")}, ${Math.round(100 * f.score)}%`;
    box.append(characters.slice(at, f.start).join(""), mark);
    at = f.end;
  }
  box.append(characters.slice(at).join(""));
  return box;
}

export function connect() {
  $("redact-go").addEventListener("click", async () => {
    const text = $("redact-in").value, out = $("redact-out");
    if (!text.trim()) return $("redact-in").focus();
    $("redact-go").disabled = true;
    out.replaceChildren(make("p", "soft", "Looking …"));
    try {
      const answer = await post("/v1/redact", { input: text, replace: $("redact-style").value });
      const { text: clean, findings } = answer.data[0], copy = make("button", "", "Copy the redacted text");
      copy.type = "button";
      copy.addEventListener("click", () => navigator.clipboard?.writeText(clean));
      const places = make("div", "places");
      places.append(make("span", "soft small", findings.length === 1 ? "1 place" : `${findings.length} places`), copy);
      out.replaceChildren(marked(text, findings), places);
      $("redact-note").textContent = answer.note ?? "";
    } catch (e) {
      out.replaceChildren(make("p", "failed", e.message));
    }
    $("redact-go").disabled = false;
  });
}
