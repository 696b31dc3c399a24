// Search over the pages: what MiniSearch finds, with the section of each page that fits best, and an excerpt.
"use strict";

globalThis.createSearch = (MiniSearch, { pages, synonyms }) => {
  // Words are compared without case, and without the endings of plurals and verbs; a plane is no plan.
  const stem = (word) => word.toLowerCase().replace(/(?<!plan)(?:(?<=\w{4})(?:ings?|ers?|ed|es|e)|(?<=\w\w[^s])s)$/, "");
  const separate = (text) => text.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const split = (text) => separate(text.replace(/([a-z0-9])([A-Z])/g, "$1 $2"));
  // Pages are found by a word in camel case and by its parts, because people type it in lower case.
  const splitAlso = (text) => [...split(text), ...separate(text).filter((word) => /[a-z0-9][A-Z]/.test(word))];
  const ignored = new Set("a an and are at by do for from how i if in is it my of on or the to use what when where with".split(" "));
  const process = (word) => (ignored.has(word.toLowerCase()) ? null : stem(word));

  const index = new MiniSearch({
    fields: ["title", "keywords", "headings", "text"],
    tokenize: splitAlso,
    processTerm: process,
    searchOptions: {
      tokenize: split,
      boost: { title: 6, keywords: 6, headings: 2 },
      boostDocument: (id) => pages[id].weight,
      prefix: (term, at, terms) => at === terms.length - 1 && term.length > 2,
      fuzzy: (term) => (term.length > 4 ? 0.2 : false),
      weights: { fuzzy: 0.1, prefix: 0.3 },
    },
  });
  index.addAll(
    pages.map(({ title, label, keywords, sections }, id) => ({
      id,
      title: `${title} ${label}`,
      keywords,
      headings: sections.map(({ heading }) => heading).join(" "),
      text: sections.map(({ text }) => text).join(" "),
    })),
  );

  // A query, and the words that pages use for it.
  const withSynonyms = (query) => {
    const words = ` ${splitAlso(query).join(" ").toLowerCase()} `;
    const more = Object.entries(synonyms).filter(([phrase]) => words.includes(` ${phrase} `));
    return [query, ...more.map(([, instead]) => instead)].join(" ");
  };

  // The section with most of the words, and its text around the first of them.
  const excerpt = (sections, terms) => {
    const fits = (word) => terms.includes(process(word));
    const scored = sections.map((section) => {
      const words = new Set(splitAlso(section.text).filter(fits).map(stem));
      return { section, score: words.size + 2 * splitAlso(section.heading).filter(fits).length };
    });
    const { section } = scored.reduce((best, other) => (other.score > best.score ? other : best));
    const words = section.text.split(/\s+/);
    const first = Math.max(0, words.findIndex((word) => splitAlso(word).some(fits)) - 8);
    const shown = words.slice(first, first + 32);
    return {
      heading: section.heading,
      anchor: section.anchor,
      // Pieces of text, each with whether it is a word of the query.
      words: shown.map((word) => [word, splitAlso(word).some(fits)]),
      before: first > 0,
      after: first + 32 < words.length,
    };
  };

  const pagesShown = 20;
  const historyShown = 10;

  return (query) => {
    // A page with every word of the query is worth twice one with some of them.
    const every = index.search(query, { combineWith: "AND" });
    const some = index.search(withSynonyms(query), { combineWith: "OR" });
    const complete = new Set(every.map(({ id }) => id));
    const scored = some
      .map((result) => ({ ...result, score: result.score * (complete.has(result.id) ? 2 : 1) }))
      .sort((one, other) => other.score - one.score);
    // Decisions and the changelog come last, also where many pages fit a little.
    const [shown, history] = [false, true].map((last) => scored.filter(({ id }) => pages[id].last === last));
    return [...shown.slice(0, pagesShown), ...history.slice(0, historyShown)]
      .map(({ id, terms, queryTerms, score }) => {
        // Words that are only similar to those of the query are shown where the page has none of them.
        const exact = terms.filter((term) => queryTerms.includes(term));
        return { ...pages[id], score, excerpt: excerpt(pages[id].sections, exact.length ? exact : terms) };
      });
  };
};
