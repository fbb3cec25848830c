import { existsSync } from 'node:fs';
import { open, readFile, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { attempt } from '../attempt';
import { systemCode } from '../checkpoint/checkpoint-errors';
import { modelFailure, refusal } from './model-failure';
import { tf } from './tfjs';

/** How much is read at once. The system's limit is below 2 GiB. */
const MOST_BYTES = 2 ** 30;

const QUANTIZED_BYTES = { uint8: 1, uint16: 2, float16: 2 };

/**
 * Reads a model that `saveModel`, tfjs-node or TensorFlow.js's converter wrote.
 *
 * @param file The path of `model.json`, absolute, which names the files with the weights, relative to its folder.
 * @throws GradringError `ERR_MODEL_FILES`
 */
export async function loadModel(file: string): Promise<tf.io.ModelArtifacts> {
  const text = await readFile(file, 'utf8').catch(error => fail(file, error, 'Name the model.json of a saved model'));
  return tf.io.getModelArtifactsForJSON(parse(file, text), manifest => readWeights(dirname(file), manifest));
}

function parse(file: string, text: string): tf.io.ModelJSON {
  let model: tf.io.ModelJSON | null;
  try {
    model = JSON.parse(text) as typeof model;
  } catch (error) {
    const { message } = error as Error;
    throw modelFailure('loaded from', file, `it is not JSON: ${message}. Save or copy the model again.`, error);
  }
  if (model?.modelTopology == null && !Array.isArray(model?.weightsManifest)) {
    throw modelFailure('loaded from', file, 'it has no modelTopology. Name the model.json of a saved model.');
  }
  return model!;
}

/** All weights in one buffer. Of several, tfjs 4.22 may read the last one wrongly if it is longer than the others. */
async function readWeights(
  folder: string,
  manifest: tf.io.WeightsManifestConfig,
): Promise<[specs: tf.io.WeightsManifestEntry[], data: ArrayBuffer]> {
  const files: WeightsFile[] = [];
  for (const { paths, weights } of manifest) {
    const ofGroup = await Promise.all(paths.map(name => measure(join(folder, name))));
    const needed = sum(weights.map(leastBytes));
    const there = sum(ofGroup.map(({ bytes }) => bytes));
    if (there < needed) {
      const why = `its weights are too short: they need ${needed} bytes, but ${there} are in ${paths.join(' and ')}. Save or copy the model again.`;
      throw modelFailure('loaded from', folder, why);
    }
    files.push(...ofGroup);
  }
  const data = new Uint8Array(sum(files.map(({ bytes }) => bytes)));
  let start = 0;
  for (const { path, bytes } of files) {
    await readInto(data.subarray(start, start + bytes), path);
    start += bytes;
  }
  return [tf.io.getWeightSpecs(manifest), data.buffer];
}

interface WeightsFile {
  readonly path: string;
  readonly bytes: number;
}

async function measure(path: string): Promise<WeightsFile> {
  const { size } = await stat(path).catch(error => fail(path, error, 'model.json names it: copy it there'));
  return { path, bytes: size };
}

async function readInto(data: Uint8Array, path: string): Promise<void> {
  const file = await open(path).catch(error => fail(path, error));
  try {
    for (let read = 0; read < data.byteLength;) {
      const { bytesRead } = await file.read(data, read, Math.min(data.byteLength - read, MOST_BYTES));
      if (bytesRead === 0) throw new Error('the file became shorter while it was read');
      read += bytesRead;
    }
  } catch (error) {
    fail(path, error);
  } finally {
    await file.close();
  }
}

/** How many bytes a tensor has at least. The length of strings stands only in the weights themselves. */
function leastBytes({ shape, dtype, quantization }: tf.io.WeightsManifestEntry): number {
  const bytes = quantization
    ? QUANTIZED_BYTES[quantization.dtype]
    : dtype === 'string'
      ? Uint32Array.BYTES_PER_ELEMENT
      : tf.util.bytesPerElement(dtype);
  return tf.util.sizeFromShape(shape) * bytes;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function fail(path: string, error: unknown, ifMissing = ''): never {
  throw modelFailure('loaded from', path, explain(path, error, ifMissing), error);
}

function explain(path: string, error: unknown, ifMissing: string): string {
  switch (systemCode(error)) {
    case 'ENOENT':
      if (path.includes('%') && existsSync(decoded(path)))
        return `there is no such file. A file:// URL holds the path as it is: file://${decoded(path)}`;
      if (!existsSync(dirname(path))) return `there is no folder ${dirname(path)}.`;
      return `there is no such file. ${ifMissing}.`;
    case 'EISDIR':
      return `it is a folder. Name the file in it: file://${join(path, 'model.json')}`;
    default:
      return refusal(error, 'read');
  }
}

/** With spaces for %20, and so on. */
function decoded(path: string): string {
  return attempt(() => decodeURI(path)) ?? path;
}
