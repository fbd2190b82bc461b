//! Scenarios of ranking, in English, Chinese and both.

use proptest::prelude::*;

use super::*;

fn split(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    words(text, |word, counted| {
        if counted {
            all.push(word.to_owned());
        }
    });
    all
}

fn best(query: &str, passages: &[&str]) -> Option<usize> {
    rank(query, passages).first().map(|scored| scored.index)
}

#[test]
fn forms_of_an_english_word_meet_in_one_stem() {
    for forms in [
        vec!["order", "orders", "ordered", "ordering", "Order's", "ORDER"],
        vec!["ship", "ships", "shipped", "shipping"],
        vec!["policy", "policies"],
        vec!["close", "closes", "closed", "closing"],
        vec!["box", "boxes", "boxed"],
        vec!["delay", "delays", "delayed"],
    ] {
        let stems: std::collections::BTreeSet<String> = forms.iter().flat_map(|form| split(form)).collect();
        assert_eq!(stems.len(), 1, "{forms:?} became {stems:?}");
    }
}

#[test]
fn words_that_only_look_like_forms_stay_whole() {
    for word in ["string", "status", "address", "this", "red", "analysis", "bring"] {
        assert_eq!(split(word), [word]);
    }
}

#[test]
fn chinese_gives_pairs_and_a_lone_character_itself() {
    assert_eq!(split("退货政策"), ["退货", "货政", "政策"]);
    assert_eq!(split("税 rate"), ["税", "rat"]);
    assert_eq!(split("订单OD20241015已发货"), ["订单", "od20241015", "已发", "发货"]);
}

#[test]
fn names_of_programs_come_apart_and_full_width_is_narrowed() {
    assert_eq!(split("order_status_query"), ["order", "status", "query"]);
    assert_eq!(split("ＯＤ２０２４"), ["od2024"]);
    assert_eq!(split("3.5"), ["3.5"]);
    assert_eq!(best("file reader", &["writeFile", "something", "fileReader"]), Some(2));
}

#[test]
fn the_passage_about_the_question_comes_first_in_english() {
    let passages = [
        "Our offices are open from nine to five on working days.",
        "Refunds are paid within five working days after we received the returned goods.",
        "Shipping is free for orders above 50 euros.",
    ];
    assert_eq!(best("when do I get my refund for a return?", &passages), Some(1));
    assert_eq!(best("what does it cost to ship an order", &passages), Some(2));
}

#[test]
fn the_passage_about_the_question_comes_first_in_chinese() {
    let passages = ["工作时间为周一至周五九点到十七点。", "收到退回商品后五个工作日内退款。", "订单满两百元免运费。"];
    assert_eq!(best("多久可以退款？", &passages), Some(1));
    assert_eq!(best("运费怎么算", &passages), Some(2));
    assert_eq!(best("免", &passages), Some(2));
}

#[test]
fn mixed_questions_find_mixed_passages() {
    let passages = ["API 密钥在控制台创建", "Webhook 重试三次，间隔 10 秒", "The console shows API usage"];
    assert_eq!(best("webhook 重试几次", &passages), Some(1));
    assert_eq!(best("怎么创建 API key 密钥", &passages), Some(0));
}

#[test]
fn what_shares_no_word_is_left_out_and_equals_keep_their_order() {
    assert!(rank("zebra", &["apple", "pear"]).is_empty());
    assert!(rank("", &["apple"]).is_empty());
    assert!(rank("?!", &["apple"]).is_empty());
    let same = rank("apple", &["apple pie", "none", "apple pie"]);
    assert_eq!(same.iter().map(|scored| scored.index).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(same[0].score, same[1].score);
}

#[test]
fn a_rare_word_outweighs_a_common_one() {
    let passages = ["order late", "order", "order", "order customs", "order"];
    let ranked = rank("order customs", &passages);
    assert_eq!(ranked[0].index, 3);
    assert_eq!(ranked[0].matched, 2);
    assert_eq!(ranked.len(), 5);
}

#[test]
fn fillers_alone_are_still_a_question() {
    assert_eq!(best("who", &["what", "who"]), Some(1));
}

proptest! {
    #[test]
    fn an_index_and_a_ranking_agree(query in "[a-c订单退款 ]{0,12}", passages in prop::collection::vec("[a-c订单退款 ]{0,20}", 0..12)) {
        let texts: Vec<&str> = passages.iter().map(String::as_str).collect();
        let index = Index::new(texts.iter().copied());
        prop_assert_eq!(index.len(), texts.len());
        let (one, other) = (rank(&query, &texts), index.search(&query, usize::MAX));
        prop_assert_eq!(one.len(), other.len());
        for (a, b) in one.iter().zip(&other) {
            prop_assert_eq!((a.index, a.matched), (b.index, b.matched));
            prop_assert!((a.score - b.score).abs() < 1e-9);
        }
    }

    #[test]
    fn any_text_can_be_ranked(query in any::<String>(), passages in prop::collection::vec(any::<String>(), 0..5)) {
        let texts: Vec<&str> = passages.iter().map(String::as_str).collect();
        for scored in rank(&query, &texts) {
            prop_assert!(scored.score > 0.0 && scored.index < texts.len());
        }
    }
}
