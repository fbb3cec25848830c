import { GradringError } from './errors';

/** The lines of Node with which gradring is tested, each with its oldest version: `engines` in package.json. */
export const NODE_LINES: readonly (readonly [major: number, minor: number])[] = [
  [20, 15],
  [22, 2],
  [24, 0],
  [26, 0],
];

/** A warning is for a version that is new enough, but of a line that is not tested, such as 25 or 27. */
export function nodeVerdict(version = process.versions.node): 'ok' | 'warning' | 'problem' {
  const [major, minor] = version.split('.').map(Number) as [number, number];
  const line = NODE_LINES.find(([tested]) => tested === major);
  if (line !== undefined) return minor >= line[1] ? 'ok' : 'problem';
  return major < NODE_LINES[0]![0] ? 'problem' : 'warning';
}

/** The {@link NODE_LINES} for people: `20 (from 20.15), 24 and 26`. */
export function nodeLinesInWords(): string {
  const lines = NODE_LINES.map(([major, minor]) => (minor === 0 ? `${major}` : `${major} (from ${major}.${minor})`));
  return `${lines.slice(0, -1).join(', ')} and ${lines.at(-1)!}`;
}

/** @throws GradringError `ERR_NODE_VERSION`; with such a Node, gradring would fail in obscure ways. */
export function requireNode(version = process.versions.node): void {
  if (nodeVerdict(version) !== 'problem') return;
  const words = `gradring works with Node ${nodeLinesInWords()}; this is ${version}. Install a newer one (https://nodejs.org), or switch to one, for example with 'nvm use 24'.`;
  throw new GradringError('ERR_NODE_VERSION', words);
}
