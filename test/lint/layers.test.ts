import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { ESLint, type Linter } from 'eslint';
import { cycleIn, importGraph } from './import-graph';

// eslint-disable-next-line @typescript-eslint/no-require-imports -- it is no TypeScript
const config = require('../../eslint.config.js') as Linter.Config[] & { LAYERS: Record<string, string[]> };

const ROOT = path.join(__dirname, '../..');

const eslint = new ESLint({
  cwd: ROOT,
  overrideConfigFile: true, // ESLint would import the file, which Jest does not allow
  // The other rules need types, and so a file that exists.
  overrideConfig: [...config, { languageOptions: { parserOptions: { project: false } } }],
  ruleFilter: ({ ruleId }) => ruleId === 'no-restricted-imports',
});

/** What the rule of the layers says of an import in a file. */
async function complaints(file: string, imported: string): Promise<string[]> {
  const [result] = await eslint.lintText(`import { x } from '${imported}';\nx();\n`, {
    filePath: path.join(ROOT, file),
  });
  return result!.messages.map(({ ruleId, message }) => `${ruleId}: ${message}`);
}

describe('the layers', () => {
  test.each([
    ['src/kernels/x.ts', '../communicator/communicator'],
    ['src/kernels/x.ts', '../wire/frame'],
    ['src/compression/x.ts', '../wire/frame'],
    ['src/wire/x.ts', '../transport/control/link'],
    ['src/wire/x.ts', '../compression/value-format'],
    ['src/transport/x.ts', '../collectives/pipeline'],
    ['src/transport/x.ts', '../rendezvous/rendezvous'],
    ['src/rendezvous/x.ts', '../collectives/pipeline'],
    ['src/collectives/x.ts', '../communicator/communicator'],
    ['src/communicator/x.ts', '../tensorflow/ring'],
    ['src/bench/x.ts', '../tensorflow/ring'],
    ['src/bench/collectives/x.ts', '../../tensorflow/ring'],
    ['src/bench/optimizer/x.ts', '../../transport/control/link'],
    ['src/launcher/x.ts', '../communicator/communicator'],
    ['src/timeline/x.ts', '../wire/frame'],
    ['src/tensorflow/x.ts', '../timeline/timeline'],
    ['src/transport/x.ts', '../timeline/timeline'],
    ['src/compression/x.ts', '../timeline/timeline'],
    ['src/native-tensorflow/x.ts', '../tensorflow/backend'],
    ['src/checkpoint/x.ts', '../communicator/communicator'],
    ['src/communicator/x.ts', '../checkpoint/manifest'],
    ['src/checkpoint/x.ts', '@tensorflow/tfjs'],
    ['src/core/x.ts', '@tensorflow/tfjs'],
    ['src/core/x.ts', '../tensorflow/variables'],
    ['src/core/x.ts', '../native-tensorflow/npm-package'],
    ['src/communicator/x.ts', '../core/first-step'],
    ['src/tensorflow/x.ts', '../core'],
    ['src/tensorflow/kernels/x.ts', '../../core'],
    ['src/transport/x.ts', '@tensorflow/tfjs'],
    ['src/communicator/x.ts', '@tensorflow/tfjs-core'],
    ['src/communicator/x.ts', '../wire/generated/frame'],
    ['src/collectives/x.ts', '../index'],
    ['src/errors.ts', './wire/frame'],
  ])('%s may not import %s', async (file, imported) => {
    expect(await complaints(file, imported)).toEqual([expect.stringMatching(/^no-restricted-imports: /)]);
  });

  test.each([
    ['src/kernels/x.ts', './wasm-kernels'],
    ['src/wire/x.ts', './generated/frame'],
    ['src/transport/x.ts', '../wire/frame'],
    ['src/transport/x.ts', '../errors'],
    ['src/timeline/x.ts', '../errors'],
    ['src/rendezvous/x.ts', '../transport/control/link'],
    ['src/collectives/x.ts', '../kernels/kernels'],
    ['src/communicator/x.ts', '../collectives/pipeline'],
    ['src/bench/x.ts', '../compression/tensor-compressor'],
    ['src/bench/collectives/x.ts', '../../launcher/launch'],
    ['src/bench/optimizer/x.ts', '../../tensorflow/ring'],
    ['src/bench/optimizer/x.ts', '../statistics'],
    ['src/tensorflow/x.ts', '../communicator/communicator'],
    ['src/tensorflow/x.ts', '../checkpoint/save-checkpoint'],
    ['src/tensorflow/x.ts', '../core/exchange-steps'],
    ['src/core/x.ts', '../communicator/communicator'],
    ['src/core/x.ts', '../shape'],
    ['src/core.ts', './core/core-ring'],
    ['src/tensorflow/x.ts', '../native-tensorflow/npm-package'],
    ['src/checkpoint/x.ts', '../errors'],
    ['src/tensorflow/x.ts', '@tensorflow/tfjs'],
    ['src/index.ts', './communicator/communicator'],
    ['test/x.ts', '../src/kernels/kernels'],
  ])('%s may import %s', async (file, imported) => {
    expect(await complaints(file, imported)).toEqual([]);
  });

  const folders = Object.keys(config.LAYERS).filter(layer => !layer.includes('/'));

  test('are those of the table in docs/architecture.md, in its order, and the folders of src/', () => {
    const page = readFileSync(path.join(ROOT, 'docs/architecture.md'), 'utf8');
    expect([...page.matchAll(/^\| `([\w-]+)\/` +\|/gm)].map(([, folder]) => folder)).toEqual(folders);
    const entries = readdirSync(path.join(ROOT, 'src'), { withFileTypes: true });
    expect(entries.filter(entry => entry.isDirectory()).map(({ name }) => name)).toEqual(folders.toSorted());
  });

  test('may import only what is below them in that order, and do import all that they may', () => {
    const graph = importGraph();
    for (const [layer, allowed] of Object.entries(config.LAYERS)) {
      const below = folders.slice(folders.indexOf(layer.split('/')[0]!) + 1);
      const files = [...graph.keys()].filter(file => file.startsWith(`${layer}/`));
      const imported = new Set(files.flatMap(file => graph.get(file)!).map(file => file.split('/')[0]!));
      expect([layer, allowed.filter(other => !below.includes(other) || !imported.has(other))]).toEqual([layer, []]);
    }
  });
});

describe('imports', () => {
  test('no files of src/ import each other, nor in a longer circle', () => {
    expect(cycleIn(importGraph())).toBeUndefined();
  });

  test('a circle is found', () => {
    const graph = { a: ['b'], b: ['c', 'd'], c: [], d: ['e'], e: ['c', 'b'] };
    expect(cycleIn(new Map(Object.entries(graph)))).toEqual(['b', 'd', 'e', 'b']);
  });
});
