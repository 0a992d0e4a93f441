// Settings of this browser: how the dashboard looks, in which zone, and whether letters are keys.

import "./settings.css";
import { seconds } from "../clock";
import { fullTime } from "../formats";
import { useHead } from "../head";
import { letterKeys, live, theme, themes, zone, zones } from "../settings";
import { words } from "../words";

export default function Settings() {
  const said = words.settings;
  useHead(words.nav.settings, [{ text: words.nav.settings }]);
  return (
    <>
      <div class="head">
        <h1>{words.nav.settings}</h1>
        <span class="sub">{said.about}</span>
      </div>
      <div class="settings form">
        <fieldset class="field">
          <legend class="legend">{said.theme}</legend>
          <div class="themes">
            {themes.map((one) => (
              <label class="theme" key={one}>
                <input type="radio" name="page-theme" checked={theme.value === one} onChange={() => (theme.value = one)} />
                <span class={`swatch ${one}`} aria-hidden="true">
                  <i />
                  <b />
                </span>
                <span>{words.themes[one]}</span>
              </label>
            ))}
          </div>
        </fieldset>
        <fieldset class="field">
          <legend class="legend">{said.zone}</legend>
          {zones.map((one) => (
            <label class="choice" key={one}>
              <input type="radio" name="zone" checked={zone.value === one} onChange={() => (zone.value = one)} />
              <span>{said.zones[one]}</span>
            </label>
          ))}
          <p class="help">{said.now(fullTime(seconds.value * 1_000))}</p>
        </fieldset>
        <Check label={said.keys} help={said.keysHelp} value={letterKeys} />
        <Check label={said.live} help={said.liveHelp} value={live} />
        <p class="dim small">{said.kept}</p>
      </div>
    </>
  );
}

function Check(props: { label: string; help: string; value: { value: "on" | "off" } }) {
  return (
    <div class="field">
      <label class="choice">
        <input
          type="checkbox"
          checked={props.value.value === "on"}
          onChange={(event) => (props.value.value = event.currentTarget.checked ? "on" : "off")}
        />
        <span>
          {props.label}
          <span class="why-not">{props.help}</span>
        </span>
      </label>
    </div>
  );
}
