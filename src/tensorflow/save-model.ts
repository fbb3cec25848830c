import { link, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { systemCode } from '../checkpoint/checkpoint-errors';
import { makeFolder, syncFolder, writeDurably } from '../checkpoint/durable-file';
import { modelFailure, refusal } from './model-failure';
import { tf } from './tfjs';

/**
 * Writes a model as tfjs-node does: a folder with `model.json` and `weights.bin`. Makes missing folders. If there is a
 * model already, the folder holds the complete old or the complete new model at every moment.
 *
 * @throws GradringError `ERR_MODEL_FILES`
 */
export async function saveModel(folder: string, artifacts: tf.io.ModelArtifacts): Promise<tf.io.SaveResult> {
  const modelArtifactsInfo = tf.io.getModelArtifactsInfoForJSON(artifacts);
  if (artifacts.weightData === undefined && artifacts.weightSpecs?.length) {
    throw modelFailure('saved to', folder, 'its weights were not kept. Load it without streamWeights.');
  }
  try {
    await makeFolder(folder);
    await writeModel(folder, artifacts);
  } catch (error) {
    const { cause } = error as Error;
    const why =
      systemCode(cause) === 'EEXIST' || systemCode(cause) === 'ENOTDIR'
        ? 'it, or a part of its path, is a file. Name a folder, which may be missing.'
        : refusal(cause ?? error, 'write');
    throw modelFailure('saved to', folder, why, cause ?? error);
  }
  return { modelArtifactsInfo };
}

async function writeModel(folder: string, artifacts: tf.io.ModelArtifacts): Promise<void> {
  const { weightData = [], weightSpecs = [], ...description } = artifacts;
  const weights = [weightData].flat().map(buffer => new Uint8Array(buffer));
  const writer = Number(process.env['RANK']) || 0; // so no harm is done if all ranks save here by mistake
  const inFolder = (name: string) => join(folder, name);
  const writeWeights = (name: string) => writeDurably(inFolder(name), writer, weights);
  const writeDescription = (weightsName: string) => {
    const model = { ...description, weightsManifest: [{ paths: [weightsName], weights: weightSpecs }] };
    return writeDurably(inFolder('model.json'), writer, [Buffer.from(JSON.stringify(model))]);
  };
  const before = await readIfThere(inFolder('model.json'));
  if (before === undefined) {
    await writeWeights('weights.bin');
    await writeDescription('weights.bin');
    return;
  }
  // Two files cannot be replaced at the same moment. So the new weights get another name, and a new model.json names
  // them. Then nothing needs the old `weights.bin`, and the new weights can get this name, too.
  const names = ['new-weights', 'newer-weights'].map(name => `${name}.${writer}.bin`);
  // If a save was interrupted, model.json may name one of them.
  const free = names.find(name => !before.includes(name))!;
  await writeWeights(free);
  await writeDescription(free);
  await rm(inFolder('weights.bin'), { force: true });
  // Not every file system has links.
  await link(inFolder(free), inFolder('weights.bin')).catch(() => writeWeights('weights.bin'));
  await syncFolder(folder);
  await writeDescription('weights.bin');
  for (const name of names) await rm(inFolder(name), { force: true });
}

async function readIfThere(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch(error => {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw error;
  });
}
