import * as tf from '@tensorflow/tfjs';
import { execFile } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { isDeepStrictEqual, promisify } from 'node:util';
import { loadBackend } from '../../src/tensorflow/backend';
import { registerFileHandlers } from '../../src/tensorflow/file-handlers';
import { watchFileOperations } from '../checkpoint/file-operations';
import { largestError } from './support';

const FIXTURE = path.join(__dirname, 'fixtures/saved-by-tfjs-node');

let folder: string;

beforeAll(() => loadBackend({ backend: 'wasm' }));
beforeEach(() => (folder = mkdtempSync(path.join(tmpdir(), 'gradring-model-'))));
afterEach(() => {
  jest.restoreAllMocks();
  rmSync(folder, { recursive: true });
});

const inFolder = (...names: string[]) => path.join(folder, ...names);
const urlOf = (...names: string[]) => `file://${inFolder(...names)}`;
const predictions = (model: tf.GraphModel, x: tf.Tensor) => Array.from((model.predict(x) as tf.Tensor).dataSync());

const artifactsOf = (values: number[]): tf.io.ModelArtifacts => ({
  modelTopology: { layers: values.length },
  userDefinedMetadata: { values: values as unknown as object },
  weightSpecs: [{ name: 'w', shape: [values.length], dtype: 'float32' }],
  weightData: Float32Array.from(values).buffer,
});
const save = async (artifacts: tf.io.ModelArtifacts, name = 'model') =>
  tf.io.getSaveHandlers(urlOf(name))[0]!.save!(artifacts);
const load = async (name = 'model/model.json') => tf.io.getLoadHandlers(urlOf(name))[0]!.load!();
/** The weights become numbers, because Jest may consider any two buffers equal. */
const plain = ({ weightData, ...others }: tf.io.ModelArtifacts) => ({
  ...others,
  weights: Array.from(new Float32Array(weightData as ArrayBuffer)),
});

describe('a layers model', () => {
  interface Outcome {
    readonly predictions: Record<string, { before: number[]; after: number[] }>;
    readonly losses: { before: number[]; after: number[] };
    readonly ofFixture: number[];
    readonly denied: string[];
  }
  let outcome: Outcome;
  let files: string;

  beforeAll(async () => {
    files = mkdtempSync(path.join(tmpdir(), 'gradring-models-'));
    const program = path.join(__dirname, 'fixtures/model-files.js');
    outcome = JSON.parse((await promisify(execFile)(process.execPath, [program, files])).stdout) as Outcome;
  });
  afterAll(() => rmSync(files, { recursive: true }));

  test.each(['cnn', 'lstm'])('(%s) predicts the same after it was saved and loaded', name => {
    const { before, after } = outcome.predictions[name]!;
    expect(before.length).toBeGreaterThan(0);
    expect(after).toEqual(before);
    expect(readdirSync(path.join(files, name)).sort()).toEqual(['model.json', 'weights.bin']);
  });

  test('goes on training as before, if its optimizer was saved, too', () => {
    expect(outcome.losses.before).toHaveLength(3);
    expect(outcome.losses.after).toEqual(outcome.losses.before);
  });

  test('is saved by a relative path with a space, in a folder that was not there', () => {
    expect(readdirSync(path.join(files, 'some models'))).toEqual(['trained']);
  });

  test('that tfjs-node saved predicts as it did there', () => {
    const expected = JSON.parse(readFileSync(path.join(FIXTURE, 'predictions.json'), 'utf8')) as number[];
    expect(largestError(outcome.ofFixture, expected)).toBeLessThan(1e-6);
  });

  test('that tfjs-node saved is the same files when it is saved again', () => {
    const [theirs, ours] = [FIXTURE, path.join(files, 'again')].map(where => ({
      model: JSON.parse(readFileSync(path.join(where, 'model.json'), 'utf8')) as unknown,
      weights: readFileSync(path.join(where, 'weights.bin')).toString('hex'),
    }));
    expect(ours).toEqual(theirs);
  });

  test('that the user may not load or save is an error that says what to do', () => {
    expect(outcome.denied).toEqual([
      expect.stringMatching(
        /^ERR_MODEL_FILES .*cannot be loaded.*EACCES.* Give the user of this process the right to read/,
      ),
      expect.stringMatching(
        /^ERR_MODEL_FILES .*cannot be saved.*EACCES.* Give the user of this process the right to write/,
      ),
    ]);
  });
});

test('all that the artifacts of a model say is kept', async () => {
  const artifacts = {
    modelTopology: { some: 'layers' },
    format: 'a format',
    generatedBy: 'a test',
    convertedBy: 'another',
    signature: { inputs: {} },
    userDefinedMetadata: { name: 'value' },
    trainingConfig: { optimizer_config: {}, loss: 'a loss' },
    modelInitializer: { node: [] },
    initializerSignature: { outputs: {} },
    weightSpecs: [{ name: 'w', shape: [3], dtype: 'float32' as const, group: 'optimizer' as const }],
  };
  const parts = Array.of(Float32Array.of(1).buffer, Float32Array.of(2, 3).buffer); // no literal: Jest's are no `Array`
  const { modelArtifactsInfo } = await save({ ...artifacts, weightData: parts });
  expect(modelArtifactsInfo).toMatchObject({ modelTopologyType: 'JSON', weightDataBytes: 12 });
  expect(plain(await load())).toEqual({ ...artifacts, weights: [1, 2, 3] });
});

describe('a graph model', () => {
  const float = { type: 'DT_FLOAT' };
  const constant = (name: string) => ({
    name,
    op: 'Const',
    attr: { dtype: float, value: { tensor: { dtype: float } } },
  });
  const MODEL = {
    format: 'graph-model',
    modelTopology: {
      node: [
        {
          name: 'x',
          op: 'Placeholder',
          attr: { dtype: float, shape: { shape: { dim: [{ size: -1 }, { size: 2 }] } } },
        },
        ...['a', 'b', 'c', 'd'].map(constant),
        { name: 'xa', op: 'MatMul', input: ['x', 'a'], attr: { T: float } },
        { name: 'xab', op: 'AddV2', input: ['xa', 'b'], attr: { T: float } },
        { name: 'xabc', op: 'Mul', input: ['xab', 'c'], attr: { T: float } },
        { name: 'y', op: 'Mul', input: ['xabc', 'd'], attr: { T: float } },
      ],
      versions: { producer: 1, minConsumer: 1 },
    },
    weightsManifest: [
      {
        paths: ['group1-shard1of1.bin'],
        weights: [
          { name: 'a', shape: [2, 3], dtype: 'float32', quantization: { dtype: 'uint8', scale: 0.5, min: -1 } },
        ],
      },
      {
        paths: ['group2-shard1of2.bin', 'group2-shard2of2.bin'],
        weights: [{ name: 'b', shape: [3], dtype: 'float32' }],
      },
      {
        paths: ['more/group3-shard1of1.bin'],
        weights: [
          { name: 'd', shape: [3], dtype: 'float32', quantization: { dtype: 'float16' } },
          { name: 'c', shape: [], dtype: 'float32', quantization: { dtype: 'uint16', scale: 0.001, min: 1 } },
        ],
      },
    ],
  };

  beforeEach(() => {
    mkdirSync(inFolder('more'));
    const b = Buffer.from(Float32Array.of(10, 20, 30).buffer);
    const files = {
      'model.json': JSON.stringify(MODEL),
      'group1-shard1of1.bin': Uint8Array.of(0, 1, 2, 3, 4, 5), // −1 −0.5 0; 0.5 1 1.5
      'group2-shard1of2.bin': b.subarray(0, 6),
      'group2-shard2of2.bin': b.subarray(6),
      'more/group3-shard1of1.bin': Buffer.from(Uint16Array.of(0x3c00, 0x4000, 0xc000, 1000).buffer), // 1 2 −2; 2
    };
    for (const [name, content] of Object.entries(files)) writeFileSync(inFolder(name), content);
  });

  test('has its weights from groups, shards and quantized values; and can be saved', async () => {
    const model = await tf.loadGraphModel(urlOf('model.json'));
    const x = tf.tensor2d([1, 2], [1, 2]);
    expect(predictions(model, x)).toEqual([20, 86, -132]); // ([1 2]·a + b) × c × d
    await model.save(urlOf('saved'));
    expect(predictions(await tf.loadGraphModel(urlOf('saved/model.json')), x)).toEqual([20, 86, -132]);
  });

  test.each(['group1-shard1of1.bin', 'group2-shard1of2.bin', 'more/group3-shard1of1.bin'])(
    'whose %s was cut off is an error',
    async name => {
      truncateSync(inFolder(name), 4);
      await expect(tf.loadGraphModel(urlOf('model.json'))).rejects.toMatchObject({
        code: 'ERR_MODEL_FILES',
        message: expect.stringMatching(
          new RegExp(`its weights are too short: they need \\d+ bytes, but \\d+ are in .*${name}.*\\. Save or copy`),
        ),
      });
    },
  );

  test('of which a file is missing is an error', async () => {
    rmSync(inFolder('more'), { recursive: true });
    await expect(tf.loadGraphModel(urlOf('model.json'))).rejects.toMatchObject({
      code: 'ERR_MODEL_FILES',
      message: expect.stringMatching(/cannot be loaded from .*group3-shard1of1.bin: there is no folder .*more\.$/),
    });
  });
});

describe('an error says what is wrong, and what to do', () => {
  beforeEach(async () => {
    await save(artifactsOf([1]));
    writeFileSync(inFolder('text.json'), 'no JSON');
    writeFileSync(inFolder('package.json'), '{ "name": "mine" }');
    mkdirSync(inFolder('my model'));
    writeFileSync(inFolder('my model/model.json'), '{}');
  });

  test.each([
    ['a folder that is not there', 'nowhere/model.json', /there is no folder .*nowhere\./],
    ['a file that is not there', 'model/modle.json', /there is no such file\. Name the model\.json/],
    ['a folder', 'model', /it is a folder\. Name the file in it: file:\/\/.*\/model\/model\.json/],
    ['a file that is no JSON', 'text.json', /it is not JSON: .*Save or copy/],
    ['JSON that is no model', 'package.json', /no modelTopology/],
    ['a path with %20', 'my%20model/model.json', /holds the path as it is: file:\/\/.*\/my model\/model\.json/],
  ])('to load %s', async (_, name, words) => {
    await expect(load(name)).rejects.toMatchObject({ code: 'ERR_MODEL_FILES', message: expect.stringMatching(words) }); // prettier-ignore
  });

  test.each([['text.json'], ['text.json/model']])('to save to %s, which is a file', async name => {
    await expect(save(artifactsOf([1]), name)).rejects.toMatchObject({
      code: 'ERR_MODEL_FILES',
      message: expect.stringMatching(/cannot be saved to .*text\.json.*is a file\. Name a folder/),
    });
  });

  test('to save weights that are not there', async () => {
    const artifacts = { ...artifactsOf([1]), weightData: undefined as unknown as ArrayBuffer };
    await expect(save(artifacts)).rejects.toMatchObject({
      code: 'ERR_MODEL_FILES',
      message: expect.stringMatching(/without streamWeights/),
    });
  });
});

describe('saving over a model', () => {
  const [OLD, NEW] = [artifactsOf([1, 2, 3]), artifactsOf([4, 5, 6, 7, 8])];

  /** Saves NEW over what `prepare` leaves, and ends it at each operation: each time there must be a whole model. */
  async function endEverywhere(prepare: () => Promise<unknown>, how: 'fail' | 'half'): Promise<void> {
    await prepare();
    const all = watchFileOperations();
    await save(NEW);
    jest.restoreAllMocks();
    expect(all.length).toBeGreaterThan(10);
    const found = new Set<unknown>();
    for (let end = 0; end < all.length; end++) {
      await prepare();
      watchFileOperations((_, number) => (number < end ? 'do' : number === end ? how : 'fail'));
      await save(NEW).catch(() => undefined);
      jest.restoreAllMocks();
      const loaded = await load();
      const whole = [OLD, NEW].find(({ modelTopology }) => isDeepStrictEqual(modelTopology, loaded.modelTopology));
      expect(plain(loaded)).toMatchObject(plain(whole!));
      found.add(whole);
    }
    expect(found.size).toBe(2);
    await save(NEW);
    expect(readdirSync(inFolder('model')).sort()).toEqual(['model.json', 'weights.bin']);
  }

  test.each(['fail', 'half'] as const)('leaves the old or the new one, whole, wherever it ends (%s)', async how => {
    await endEverywhere(() => save(OLD), how);
  });

  test('does so after another that ended before its time, too', async () => {
    await endEverywhere(async () => {
      await save(NEW);
      let hasEnded = false;
      watchFileOperations(name => ((hasEnded ||= name === 'rm weights.bin') ? 'fail' : 'do'));
      await expect(save(OLD)).rejects.toThrow('ENOSPC');
      jest.restoreAllMocks();
    }, 'fail');
  });

  test('never writes through a link', async () => {
    await save(OLD);
    const other = inFolder('other');
    writeFileSync(other, 'of somebody else');
    for (const name of ['model.json', 'model.json.0.tmp', 'weights.bin.0.tmp', 'new-weights.0.bin.0.tmp']) {
      rmSync(inFolder('model', name), { force: true });
      symlinkSync(other, inFolder('model', name));
    }
    await save(NEW);
    expect(readFileSync(other, 'utf8')).toBe('of somebody else');
    expect(plain(await load())).toMatchObject(plain(NEW));
  });

  test('works where there are no links', async () => {
    await save(OLD);
    watchFileOperations(operation => (operation.startsWith('link') ? 'fail' : 'do'));
    await save(NEW);
    expect(plain(await load())).toMatchObject(plain(NEW));
  });
});

describe('the handlers of tfjs-node', () => {
  const theirs = { save: jest.fn(), load: jest.fn() };

  test('are used instead, also if they come later', () => {
    const router = (url: string | string[]) => (String(url).startsWith('file://theirs/') ? theirs : null!);
    tf.io.registerSaveRouter(router);
    tf.io.registerLoadRouter(router);
    expect(tf.io.getSaveHandlers('file://theirs/model')).toEqual([theirs]);
    expect(tf.io.getLoadHandlers('file://theirs/model/model.json')).toEqual([theirs]);
    expect(tf.io.getSaveHandlers('file://ours/model')).toHaveLength(1);
  });

  test('or others are never joined by a second one', () => {
    registerFileHandlers();
    expect(tf.io.getSaveHandlers('file://model')).toHaveLength(1);
    expect(tf.io.getLoadHandlers('file://model/model.json')).toHaveLength(1);
    expect(tf.io.getSaveHandlers('localstorage://model')).toHaveLength(0);
  });
});
