// Preloaded where the optional package koffi is not to load.
const { Module } = require('node:module');

const load = Module._load;
Module._load = (name, ...rest) => {
  if (name === 'koffi') throw new Error('There is no koffi.');
  return load(name, ...rest);
};
