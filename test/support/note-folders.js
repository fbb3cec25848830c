// Loaded before all else in each thread of a rank: notes the folders that the rank makes, so that a test can look
// whether one is left.
const fs = require('node:fs');

const { mkdtempSync } = fs;
fs.mkdtempSync = (...args) => {
  const made = mkdtempSync(...args);
  fs.appendFileSync(process.env.NOTED_FOLDERS, `${made}\n`);
  return made;
};
