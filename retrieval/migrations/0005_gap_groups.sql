-- Repeats of a question form a group, named after the first of them (gateway/gaps.py). The vector is that of the question.
ALTER TABLE coverage_gap
    ADD COLUMN group_id  text,
    ADD COLUMN model     text,
    ADD COLUMN embedding vector;

UPDATE coverage_gap AS gap SET group_id = firsts.id
    FROM (SELECT DISTINCT ON (tenant, collection, lower(question)) tenant, collection, lower(question) AS question, id
          FROM coverage_gap ORDER BY tenant, collection, lower(question), at, id) AS firsts
    WHERE (gap.tenant, gap.collection, lower(gap.question)) = (firsts.tenant, firsts.collection, firsts.question);

ALTER TABLE coverage_gap ALTER COLUMN group_id SET NOT NULL;

CREATE INDEX coverage_gap_group ON coverage_gap (group_id, at DESC);
CREATE INDEX coverage_gap_first ON coverage_gap (tenant, collection) WHERE id = group_id;
