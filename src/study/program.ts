import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';

const ROOT = path.join(__dirname, '../..');

/** What runs in a training: gradring itself, and the programs of the ranks. */
const FOLDERS = ['dist', 'scripts/train'];

/**
 * A short hash of the program that trains. Trainings with the same one were made by the same code. Two things are left
 * out: the compiler's cache, which depends on what was compiled before, and the study itself, which does not train.
 * What it chooses is logged with each training.
 */
export function programHash(): string {
  const hash = createHash('sha256');
  for (const folder of FOLDERS) {
    const files = readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' }).sort();
    for (const file of files) {
      const whole = path.join(ROOT, folder, file);
      const trains = path.dirname(whole) !== __dirname && !file.endsWith('.tsbuildinfo');
      if (trains && statSync(whole).isFile()) hash.update(`${folder}/${file}\0`).update(readFileSync(whole));
    }
  }
  return hash.digest('hex').slice(0, 12);
}
