import { readFileSync } from 'node:fs';
import path from 'node:path';
import { attempt } from '../attempt';
import { packageDirectory, PACKAGES } from '../native-tensorflow/npm-package';
import { readManifest } from '../version';
import type { Finding } from './finding';

const WHAT = 'TensorFlow.js';
const PROJECT = 'this project';

/** A package, as `require` finds it from a certain folder. */
interface Found {
  readonly package: string;
  readonly usedBy: string;
  readonly version: string;
  readonly directory: string;
}

/** Whether the project of the working directory, and tfjs-node, load the same TensorFlow.js as gradring. */
export function tensorFlowFinding(): Finding {
  const own = find('@tensorflow/tfjs', 'gradring', __dirname);
  if (own === undefined) {
    const supported = readManifest().peerDependencies['@tensorflow/tfjs'];
    const words = `gradring finds no @tensorflow/tfjs; run npm install '@tensorflow/tfjs@${supported}'`;
    return { what: WHAT, verdict: 'problem', words, details: {} };
  }
  const copies = copiesBeside(own);
  const details = { own, copies };
  if (copies.length === 0) {
    return { what: WHAT, verdict: 'ok', words: `${own.version}, one copy (${own.directory})`, details };
  }
  const found = [own, ...copies].map(
    copy => `${copy.usedBy} loads ${copy.package} ${copy.version} (${copy.directory})`,
  );
  const packages = copies.flatMap(copy => [copy.package, copy.usedBy]).filter(name => name.startsWith('@'));
  const install = `npm install ${[...new Set(packages)].map(name => `${name}@${own.version}`).join(' ')}`;
  const otherwise = copies.some(({ usedBy }) => usedBy === PROJECT) ? ', or use the tf of loadBackend()' : '';
  const words =
    `${found.length} copies, which do not work together: ${found.join(', ')}; ` +
    `run ${install}, and npm dedupe if that does not help${otherwise}`;
  return { what: WHAT, verdict: 'problem', words, details };
}

function copiesBeside(own: Found): Found[] {
  const isOther = (found: Found | undefined, ours: Found | undefined): found is Found =>
    found !== undefined && found.directory !== ours?.directory;
  const ofProject = find('@tensorflow/tfjs', PROJECT, process.cwd());
  const core = find('@tensorflow/tfjs-core', PROJECT, process.cwd());
  const copies: Found[] = [];
  // Another tfjs has another core, too: one of the two is enough to report.
  if (isOther(ofProject, own)) copies.push(ofProject);
  else if (isOther(core, find('@tensorflow/tfjs-core', 'gradring', own.directory))) copies.push(core);
  for (const name of PACKAGES) {
    const { directory } = packageDirectory(name);
    const ofNative = directory && find('@tensorflow/tfjs', `@tensorflow/${name}`, directory);
    if (ofNative && isOther(ofNative, own)) copies.push(ofNative);
  }
  return copies;
}

function find(name: string, usedBy: string, folder: string): Found | undefined {
  return attempt(() => {
    const file = require.resolve(`${name}/package.json`, { paths: [folder] });
    const { version } = JSON.parse(readFileSync(file, 'utf8')) as { version: string };
    return { package: name, usedBy, version, directory: path.dirname(file) };
  });
}
