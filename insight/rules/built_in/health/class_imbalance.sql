-- name = "ClassImbalance"
-- means = "Some classes have far fewer labels than others, and the model gets them wrong."
-- advice = "Weight the classes in the loss, sample them evenly, or collect more data of the rare ones."
-- severity = "warning"
-- needs = ["labels"]
-- lookback = "6 h"
-- [parameters.threshold_imbalance]
-- default = 10
-- unit = "ratio"
-- help = "labels of the most frequent class over those of a rare one"
-- [parameters.threshold_misprediction]
-- default = 0.7
-- unit = "ratio"
-- help = "share of a rare class's labels that is predicted wrongly"
-- [parameters.samples]
-- default = 500
-- unit = "labels"
-- help = "labels that are needed, of the second half of the watched steps"
-- [parameters.patience]
-- default = 20
-- unit = "watched steps"
-- help = "watched steps that are needed; at first, all classes are predicted wrongly"

-- Both are needed: rare classes that are predicted well are no problem. The model must get the frequent class right.
with steps as (
    select x.collection, x.time, x.watched, t.name, t.size, t.mean::float8 as share, max(x.watched) over () as last
    from rule_tensors(%(run)s, %(start)s, %(stop)s, '{labels,predictions}') x
    cross join lateral unnest(x.names, x.sizes, x.mean) as t (name, size, mean)
), classes as (
    select name, sum(share * size) filter (where collection = 'labels') as labels, max(last) as last,
           avg(share) filter (where collection = 'predictions') as accuracy, min(time) as begins
    from steps where watched > last / 2 group by name
), rare as (
    select *, max(labels) over () as most, sum(labels) over () as total,
           first_value(accuracy) over (order by labels desc nulls last) as usual
    from classes
)
select min(begins) as started_at, null::timestamptz as ended_at,
       jsonb_build_object('classes', to_jsonb((array_agg(name order by labels))[1:5]), 'count', count(*),
                          'imbalance', max(most / labels), 'misprediction', max(1 - accuracy)) as evidence
from rare
where labels > 0 and most > %(threshold_imbalance)s * labels and 1 - accuracy > %(threshold_misprediction)s
  and usual >= 0.5 and total >= %(samples)s and last >= %(patience)s
having count(*) > 0
