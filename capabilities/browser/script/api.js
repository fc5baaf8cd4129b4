// The part of the guest that the script sees, and the driver that runs it. What
// it uses is taken here, before the script could change it: a script that changes
// Object.prototype harms only what it computes itself.
//
// step, log, sleep, tell and hold are the host's; they are gone before the script runs.
(function (config) {
	'use strict';
	const { handrailStep: step, handrailLog: log, handrailSleep: sleep, handrailTell: tell, handrailKeep: hold } = globalThis;
	for (const name of ['handrailStep', 'handrailLog', 'handrailSleep', 'handrailTell', 'handrailKeep']) delete globalThis[name];

	const { tools, maxLogs, maxLogEntry, maxLine, maxMessage, maxTimers } = JSON.parse(config);
	const { apply } = Reflect, { parse, stringify } = JSON, { assign, defineProperty } = Object, { isArray } = Array;
	const { now } = Date, { min } = Math;
	const Failure = Error, WrongType = TypeError, Later = Promise, Text = String, Bytes = ArrayBuffer;
	const resolve = Promise.resolve, slice = String.prototype.slice, copyOf = Array.prototype.slice;
	const kindOf = Object.prototype.toString, sourceOf = Function.prototype.toString;
	const chains = ['then', 'catch', 'finally'].map(name => [name, Promise.prototype[name]]);

	const set = (o, name, value, enumerable) =>
		defineProperty(o, name, { __proto__: null, value, enumerable, writable: true, configurable: true });
	const clip = (text, max) => text.length > max ? apply(slice, text, [0, max]) : text;

	// short names the field that a lone text stands for.
	const short = {
		__proto__: null, navigate: 'url', evaluate: 'expression', 'press-key': 'key', click: 'selector', hover: 'selector',
		snapshot: 'selector', screenshot: 'selector',
	};

	// textOf gives a step's arguments as the text of a JSON object.
	function textOf(tool, name, given) {
		if (given.length > 1) throw new WrongType(`page.${name} takes one object with the tool's arguments`);
		let first = given.length > 0 ? given[0] : undefined;
		if (first === undefined || first === null) return '{}';
		if (tool === 'evaluate' && typeof first === 'function') first = apply(sourceOf, first, []);
		let text;
		if (typeof first === 'string') {
			if (!short[tool]) throw new WrongType(`page.${name} takes an object with the tool's arguments, not a text`);
			text = stringify({ __proto__: null, [short[tool]]: first });
		} else {
			text = stringify(first);
			if (typeof text !== 'string' || text[0] !== '{') throw new WrongType(`page.${name} takes one object with the tool's arguments`);
		}
		if (text.length > maxLine) throw new WrongType(`The arguments of page.${name} are too large.`);
		return text;
	}

	// chain lets a step's result be awaited and chained, though it is there.
	function chain(value) {
		if (value === null || typeof value !== 'object') return value;
		for (let i = 0; i < chains.length; i++) {
			const how = chains[i][1];
			set(value, chains[i][0], function (a, b) {
				const plain = isArray(value) ? apply(copyOf, value, []) : assign({}, value);
				return apply(how, apply(resolve, Later, [plain]), [a, b]);
			}, false);
		}
		return value;
	}

	// take carries a step out and returns its answer.
	let seen = null; // the lines of the page with their refs, until a step may have changed it
	function take(tool, text) {
		if (tool !== 'snapshot') seen = null;
		const { value, failure } = parse(step(tool, text));
		if (failure) {
			const e = new Failure(failure.message);
			set(e, 'code', failure.code, true);
			set(e, 'hint', failure.hint, true);
			set(e, 'call', failure.call, true);
			throw e;
		}
		return value;
	}

	const exec = RegExp.prototype.exec, cut = String.prototype.split, has = String.prototype.includes, lower = String.prototype.toLowerCase;
	const named = /^ *- ([a-z]+) ("(?:[^"\\]|\\.)*")(.*)$/, reffed = / \[ref=([a-z0-9]+)\]/;
	// look lists the elements with a name and a ref.
	function look(more) {
		const found = [], lines = apply(cut, take('snapshot', stringify({ __proto__: null, max_chars: 200000, ...more })).snapshot, ['\n']);
		for (let i = 0; i < lines.length; i++) {
			const line = apply(exec, named, [lines[i]]), ref = line && apply(exec, reffed, [line[3]]);
			if (ref) found[found.length] = { __proto__: null, role: line[1], name: parse(line[2]), ref: ref[1] };
		}
		return found;
	}
	// choose lists those that are called so, or, if none is, those whose name holds it.
	function choose(all, name, role) {
		const exact = [], near = [], want = apply(lower, name, []);
		for (let i = 0; i < all.length; i++) {
			const x = all[i];
			if (role !== undefined && x.role !== role) continue;
			if (x.name === name) exact[exact.length] = x;
			else if (apply(has, apply(lower, x.name, []), [want])) near[near.length] = x;
		}
		return exact.length > 0 ? exact : near;
	}

	const page = {}, console = {};
	set(page, 'ref', function (name, role) {
		if (typeof name !== 'string' || name === '') throw new WrongType('page.ref takes the name of an element, and its role if you like');
		seen = seen || look({ interactive_only: true });
		let found = choose(seen, name, role);
		if (found.length === 0) found = choose(look({ search: name }), name, role);
		if (found.length === 1) return found[0].ref;
		const called = stringify(name) + (role === undefined ? '' : ' as ' + role);
		if (found.length === 0) throw new Failure('page.ref: nothing is called ' + called);
		let list = '';
		for (let i = 0; i < found.length && i < 8; i++) list += (i > 0 ? ', ' : '') + found[i].role + ' ' + stringify(clip(found[i].name, 60));
		throw new Failure('page.ref: ' + found.length + ' elements are called ' + called + ': ' + list);
	}, true);
	set(page, 'expect', function (ok, what) {
		if (!ok) throw new Failure('expected: ' + clip(Text(what), maxMessage));
	}, true);
	set(page, 'keep', function (name, value) {
		const text = stringify(value === undefined ? null : value);
		if (typeof text !== 'string') throw new WrongType('page.keep takes a name and a value that JSON has');
		hold(Text(name) || 'value', text);
		return value;
	}, true);
	for (const [tool, name] of tools) {
		set(page, name, function (...given) {
			const value = take(tool, textOf(tool, name, given));
			return tool === 'evaluate' && value !== null && typeof value === 'object' ? value.result : chain(value);
		}, true);
	}

	// wordOf tells one logged value.
	function wordOf(value) {
		if (value !== null && typeof value === 'object' && apply(kindOf, value, []) !== '[object Error]') {
			try {
				const text = stringify(value);
				if (text !== undefined) return text;
			} catch { } // a circle: as String tells it
		}
		return Text(value);
	}
	let logs = 0;
	for (const [level, before] of [['log', ''], ['info', ''], ['debug', ''], ['warn', 'warn: '], ['error', 'error: ']]) {
		set(console, level, function (...values) {
			if (++logs > maxLogs) return; // the host has said that more was left out
			let text = before;
			for (let i = 0; i < values.length && text.length <= maxLogEntry; i++) text += (i > 0 ? ' ' : '') + wordOf(values[i]);
			log(clip(text, maxLogEntry));
		}, true);
	}

	// timers are what setTimeout put aside, earliest first; they run while the script
	// awaits.
	let timers = null, waiting = 0, last = 0;
	set(globalThis, 'setTimeout', function (run, ms, ...rest) {
		if (typeof run !== 'function') throw new WrongType('setTimeout needs a function');
		if (waiting >= maxTimers) throw new WrongType('too many timers');
		ms = +ms;
		const timer = { id: ++last, at: now() + (ms > 0 ? min(ms, 3600000) : 0), run, rest, next: null };
		waiting++;
		if (timers === null || timers.at > timer.at) {
			timer.next = timers;
			timers = timer;
		} else {
			let t = timers;
			while (t.next !== null && t.next.at <= timer.at) t = t.next;
			timer.next = t.next;
			t.next = timer;
		}
		return timer.id;
	}, false);
	set(globalThis, 'clearTimeout', function (id) {
		let before = null;
		for (let t = timers; t !== null; before = t, t = t.next) {
			if (t.id !== id) continue;
			if (before === null) timers = t.next; else before.next = t.next;
			waiting--;
			return;
		}
	}, false);
	set(globalThis, 'page', page, false);
	set(globalThis, 'console', console, false);

	// The driver. The engine calls it with what to do; after each, jobs run.
	let state = '', end;
	const drive = {
		__proto__: null,
		// start calls the script.
		start(script) {
			(async () => {
				try {
					end = await script(page, console);
					state = 'value';
				} catch (e) {
					end = e;
					state = 'thrown';
				}
			})();
		},
		// turn runs the next timer; it gives how the script ended, if it did.
		turn() {
			if (state !== '') return state;
			if (timers === null) {
				// A promise whose reaction found no memory is never settled.
				try {
					new Bytes(1 << 20);
				} catch {
					return 'memory';
				}
				return 'stuck';
			}
			const { at, run, rest } = timers;
			timers = timers.next;
			waiting--;
			sleep(at - now());
			try {
				apply(run, undefined, rest);
			} catch (e) {
				end = e;
				state = 'thrown';
			}
			return '';
		},
		// value gives the JSON of what the script returned. What that throws is as if
		// the script did.
		value() {
			try {
				return stringify(end === undefined ? null : end);
			} catch (e) {
				end = e;
				return null;
			}
		},
		// thrown tells what was thrown: its text, stack and call. That may run the
		// script's own getters.
		thrown() {
			if (end === null) {
				tell('thrown: null (it is also what is thrown when there is no memory left)', '', 0);
				return;
			}
			if (typeof end !== 'object' && typeof end !== 'function') {
				tell('thrown: ' + clip(Text(end), maxMessage), '', 0);
				return;
			}
			let text = '', stack = '', call = 0;
			try {
				text = clip(Text(end), maxMessage);
				stack = clip(Text(end.stack), 20000);
				call = end.call | 0;
			} catch { }
			tell(text || 'The script threw something that cannot be read.', stack, call);
		},
	};
	return (what, script) => drive[what](script);
})
