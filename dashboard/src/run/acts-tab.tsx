// What operators did to the run.

import { None } from "../parts/states";
import { FullTime } from "../parts/time";
import { words } from "../words";
import type { RunRecord } from "./record";

export function ActsTab(props: { record: RunRecord }) {
  const { acts } = props.record;
  const said = words.actsTab;
  if (acts.length === 0) return <None>{said.none}</None>;
  return (
    <div class="bleed scroll-x" tabIndex={0} role="region" aria-label={words.run.tabNames.acts}>
      <table class="table" aria-label={said.label}>
        <thead>
          <tr>
            <th>{said.when}</th>
            <th>{said.who}</th>
            <th>{said.did}</th>
            <th>{said.change}</th>
            <th>{said.reason}</th>
          </tr>
        </thead>
        <tbody>
          {acts.map((act, place) => (
            <tr key={place}>
              <td class="two">
                <FullTime at={act.at} isBare />
              </td>
              <td>
                <bdi>{act.by || words.somebody}</bdi>
              </td>
              <td>{act.verb}</td>
              <td class="two">{act.before === act.after ? act.after : `${act.before} → ${act.after}`}</td>
              <td class="two ell" title={act.reason}>
                <bdi>{act.reason}</bdi>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
