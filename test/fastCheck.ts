/** Loaded before every run of mocha: a failed property also shows the assertion that failed, in parallel runs too. */
import fc from 'fast-check';

fc.configureGlobal({ includeErrorInReport: true });
