const { existsSync, readFileSync } = require('node:fs');
const path = require('node:path');
const { gunzipSync } = require('node:zlib');

/** The folder of --data-dir lacks something, or has wrong data. The user sees it without a stack. */
class DataError extends Error {}

/**
 * Reads a file of a data set, which may be packed (NAME.gz).
 *
 * @param {string} directory
 * @param {string} name
 * @returns {Buffer}
 */
function readDataFile(directory, name) {
  const file = path.join(directory, name);
  if (existsSync(file)) return readFileSync(file);
  if (existsSync(`${file}.gz`)) return gunzipSync(readFileSync(`${file}.gz`));
  throw new DataError(`${directory} has no ${name}, nor ${name}.gz.`);
}

module.exports = { DataError, readDataFile };
