import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openapi } from '../../src/api/reference/openapi.js';
import { environmentSchema, readConfig } from '../../src/config.js';
import { notificationStates } from '../../src/redis/notifications/notificationStates.js';
import { endpointStates } from '../../src/redis/records/endpointStates.js';
import { constant } from './constant.js';
import { rowsOf, section } from './tables.js';

const page = readFileSync(join(import.meta.dirname, '../../docs/reference/delivery.md'), 'utf8');
const sorted = (names: Iterable<string>) => [...new Set(names)].sort();

describe('docs/reference/delivery.md', () => {
  /** The states that a diagram names: at either end of an arrow. */
  function statesUnder(heading: string): string[] {
    const section = page.split(`## ${heading}\n`)[1] ?? '';
    const diagram = section.split('```mermaid\n')[1]?.split('```')[0] ?? '';
    const arrows = [...diagram.matchAll(/^ {2}(\S+) --> (\w+)/gm)];
    return sorted(arrows.flatMap(([, from, to]) => [from ?? '', to ?? '']).filter((name) => name !== '[*]'));
  }

  it('names the states of a notification that the code has, and so does the OpenAPI description', () => {
    assert.deepEqual(statesUnder('States of a notification'), sorted(notificationStates));
    const { Notification: described = {} } = openapi.components.schemas;
    const { state } = described.properties as { state: { enum: string[] } };
    assert.deepEqual(sorted(state.enum), sorted(notificationStates));
  });

  it('names the states of a registration that the code has', () => {
    assert.deepEqual(statesUnder('States of a registration'), sorted(endpointStates));
  });

  describe('has each setting of delivery with its default', () => {
    const rows = page
      .split('\n')
      .filter((line) => line.startsWith('|'))
      .map((line) =>
        line
          .split('|')
          .slice(1, -1)
          .map((cell) => cell.trim()),
      )
      .filter((cells) => cells.length === 3);
    const config = readConfig({});

    /** As the page writes it: `10 s`, `5 days`, and of a list the last with "then". */
    const expected: Record<string, string> = {
      ATTEMPT_TIMEOUT_SECONDS: span(config.ATTEMPT_TIMEOUT_SECONDS),
      RETRY_SCHEDULE_SECONDS: list(config.RETRY_SCHEDULE_SECONDS),
      OWED_RETENTION_DAYS: span(config.OWED_RETENTION_DAYS * 86_400),
      MAX_IN_FLIGHT: String(config.MAX_IN_FLIGHT),
      DRAIN_PER_SECOND: `${config.DRAIN_PER_SECOND} a second`,
    };
    for (const [name, value] of Object.entries(expected)) {
      it(`${name}: ${value}`, () => {
        const row = rows.find(([, , setting]) => setting?.includes(`\`${name}\``));
        assert.ok(row?.[1], `no row of ${name}`);
        assert.match(row[1], new RegExp(`^(after )?${value}`));
      });
    }

    const fixed: Record<string, string> = {
      'a notification ends as `failed`': span(config.retryWindowMs / 1000),
      'an endpoint is failing': `${config.failingAfter} failed attempts`,
      'probes of a failing': list(config.probeScheduleMs.map((ms) => ms / 1000)),
      suspended: span(config.suspendAfterMs / 1000),
      'connections to one origin': String(config.connectionsPerOrigin),
      'connections of one process': config.maxSockets.toLocaleString('en-US'),
    };
    for (const [begins, value] of Object.entries(fixed)) {
      it(`${begins}: ${value}`, () => {
        const row = rows.find(([what]) => what?.startsWith(begins));
        assert.match(row?.[1] ?? '', new RegExp(`^(after )?${value}`));
      });
    }

    it('and the bounds of the intake', () => {
      const intake = rowsOf(section(page, 'Intake')).map(([, bound = '']) => bound);
      const bounds = [
        constant('eventsAtMost'),
        constant('maxUnderWay'),
        constant('claimsPerTurn'),
        config.WORKFLOWS_PER_SECOND,
        constant('maxGroupEvents'),
        20_000,
      ];
      for (const bound of bounds.map((number) => number.toLocaleString('en-US')))
        assert.ok(
          intake.some((text) => new RegExp(`(?<![\\d,.])${bound}(?!\\d|,\\d)`).test(text)),
          bound,
        );
    });

    it('and none that does not exist', () => {
      const named = page.match(/`[A-Z]+(_[A-Z]+)+`/g) ?? [];
      const settings = new Set(Object.keys(environmentSchema.shape));
      assert.deepEqual(
        named.map((name) => name.slice(1, -1)).filter((name) => !settings.has(name)),
        [],
      );
    });
  });
});

function span(seconds: number): string {
  for (const [unit, length] of [
    ['days', 86_400],
    ['h', 3600],
    ['min', 60],
  ] as const) {
    if (seconds % length === 0) return `${seconds / length} ${unit}`;
  }
  return `${seconds} s`;
}

function list(seconds: readonly number[]): string {
  const spans = seconds.map(span);
  return `${spans.slice(0, -1).join(', ')}, then ${spans.at(-1)}`;
}
