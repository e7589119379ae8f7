import { Change } from './conversion';

export type DecisionName = Change['decision'];

/** A node of the tree: one decision, or several that are right together only. */
export interface IDecisionGroup {
  names: readonly DecisionName[];
}

/** All decisions, in the order in which a reader thinks of them. */
export const DECISION_GROUPS: readonly IDecisionGroup[] = [
  { names: ['start'] },
  { names: ['averaging'] },
  { names: ['batch', 'rate', 'steps'] },
  { names: ['output'] }
];

/** The changes of a decision. */
export interface IDecision {
  name: DecisionName;
  changes: readonly Change[];
}

/** The decisions that some changes belong to, those that are right together only in one list. */
export function decisionsOf(changes: readonly Change[]): IDecision[][] {
  return DECISION_GROUPS.map(({ names }) =>
    names
      .map(name => ({
        name,
        changes: changes.filter(({ decision }) => decision === name)
      }))
      .filter(decision => decision.changes.length > 0)
  ).filter(group => group.length > 0);
}

/**
 * Choices with those that have to be taken, or left, with them.
 *
 * A larger batch without its rate, or its counts of steps, is another training than was asked for. Without the start no change works.
 */
export function withBound(
  changes: readonly Change[],
  all: readonly Change[],
  accepted: boolean
): readonly Change[] {
  const known = new Set(all);
  const chosen = new Set(changes.filter(change => known.has(change)));
  const wanted = new Set([...chosen].map(({ decision }) => decision));
  if (!accepted && wanted.has('start')) {
    return all;
  }
  const bound = new Set(
    DECISION_GROUPS.filter(
      ({ names }) => names.length > 1 && names.some(name => wanted.has(name))
    ).flatMap(({ names }) => names)
  );
  if (accepted) {
    bound.add('start');
  }
  return all.filter(change => chosen.has(change) || bound.has(change.decision));
}

/** Whether a change is of the rules and the cell that a query names, and has the rest of it in its reason or its code. */
export function matchesQuery(change: Change, query: string): boolean {
  const rules = query.match(/\bhvd\d+/gi) ?? [];
  const cells = [...query.matchAll(/\bcell[\s:]*(\d+)/gi)];
  const text = query
    .replace(/\bhvd\d+|\bcell[\s:]*\d+/gi, ' ')
    .trim()
    .toLowerCase();
  return (
    rules.every(rule => change.rule.startsWith(rule.toUpperCase())) &&
    cells.every(([, number]) => change.cell === Number(number) - 1) &&
    [change.why, change.before, change.after].some(part =>
      part.toLowerCase().includes(text)
    )
  );
}
